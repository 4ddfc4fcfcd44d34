"""Assigns processing priorities to documents: a customer who sends many waits behind those
who send few.

Each document gets a level when it arrives, 1 to be processed first and 9 last, from how
much its customer has sent recently and what is still pending. The numbers live in Redis, and
all processes share them, also with those that use the Go module or the Node.js package of
this project.

    >>> import redis, docpriority
    >>> store = docpriority.Store(redis.Redis())
    >>> store.submit("acme", "invoice-1").level
    1
"""

from ._decision import Decision, Ended, Override, Rule, State
from ._errors import CorruptError, NotCountedError, OutcomeUnknownError, PriorityError
from ._keys import Keys
from ._policy import Policy, ResetMode
from ._store import AsyncStore, Store

__all__ = [
    "AsyncStore",
    "CorruptError",
    "Decision",
    "Ended",
    "Keys",
    "NotCountedError",
    "OutcomeUnknownError",
    "Override",
    "Policy",
    "PriorityError",
    "ResetMode",
    "Rule",
    "State",
    "Store",
]
__version__ = "0.1.0"
