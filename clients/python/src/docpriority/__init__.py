"""docpriority gives each document of each customer a level from 1 (processed first) to 9 (processed last) when it
arrives, based on how much that customer has sent recently. One customer's flood no longer makes the others wait.

    store = docpriority.Store(redis.Redis(), join=True)       # once, in each process
    decision = store.submit("acme", "invoice-4711", cost=12)  # a document has arrived, of 12 pages
    publish(document, decision.level)                         # into your queue; 1 is first
    store.done("acme", "invoice-4711", took)                  # when it is processed; took is a timedelta

The numbers live in Redis, and all processes share them, also those that use the Go module or the Node.js package of
this project.
"""

from ._decision import Bounds, Decision, Ended, Rule, State
from ._errors import CorruptError, NotCountedError, OutcomeUnknownError, PriorityError
from ._keys import Document, Keys
from ._policy import Policy, ResetMode
from ._store import AsyncStore, Store

__all__ = [
    "AsyncStore",
    "Bounds",
    "CorruptError",
    "Decision",
    "Document",
    "Ended",
    "Keys",
    "NotCountedError",
    "OutcomeUnknownError",
    "Policy",
    "PriorityError",
    "ResetMode",
    "Rule",
    "State",
    "Store",
]
__version__ = "0.1.0"
