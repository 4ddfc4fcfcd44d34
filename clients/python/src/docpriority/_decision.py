"""The results of a store's calls."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import timedelta
from typing import Optional

from ._keys import Name


@dataclass(frozen=True)
class Decision:
    """The level of a document, and the numbers behind it. Immutable."""

    level: int
    """1 is processed first, ``Store.last`` last."""

    rule_level: int
    """The level by the rule alone. It differs from ``level`` if an operator's override changed that."""

    count: int = 0
    """The customer's count after the document: 0 after a reset, then -1, -2 and so on. ``submit`` leaves it 0."""

    reset_in: timedelta = timedelta()
    """The time until the count is reset if no document arrives. ``submit`` leaves it 0."""

    load: float = 0.0
    """Recent × pending × cost, this document included, at most a billion. ``next`` leaves it 0."""

    pending: int = 0
    """The customer's documents that are pending when this one is due, itself included. ``next`` leaves it 0."""

    degraded: bool = False
    """Redis could not answer: the level comes from what this process remembers."""


@dataclass(frozen=True)
class Bounds:
    """The bounds that an operators' override sets for the levels of a customer's documents, which are still counted.
    Immutable."""

    earliest: int
    """No document has an earlier level than this one."""

    latest: int
    """No document has a later level than this one. If both are equal, it is the level."""

    def level(self, level: int) -> int:
        """Returns the level within the bounds that is nearest to a level."""
        return min(max(level, self.earliest), self.latest)


class Rule(enum.Enum):
    """One of the two rules by which a document gets its level."""

    UNKNOWN = "unknown"
    """Nothing is known about the customer."""

    BY_COUNT = "by_count"
    """``next`` and ``next_n``."""

    BY_LOAD = "by_load"
    """``submit`` and ``submit_n``."""


@dataclass(frozen=True)
class State:
    """Everything known about a customer: it explains a document's level and predicts the next one. Immutable."""

    rule: Rule
    """The rule by which the customer is counted: by load if any submission is still remembered, else by count if there
    is a count."""

    level: int
    """The level of the customer's latest document. By load, it is the level of the latest pending document, and 0 if
    none is pending."""

    next_level: int
    """The level of a document that arrives now and costs as much as the customer's other documents, with the operators'
    override applied, if any."""

    rule_level: int
    """``next_level`` by the rule alone."""

    count: int = 0
    """The count after the latest ``next``; 0 if there is no count."""

    reset_in: timedelta = timedelta()
    """The time until the count is reset; 0 if there is no count."""

    load: float = 0.0
    """The load of a document that arrives now. This field and those that follow are 0 unless the rule is by load."""

    recent: float = 0.0
    """The documents submitted recently, at most 512: each counts 1, then half as much after each day."""

    cost: float = 0.0
    """The cost of the customer's documents, by the times passed to ``done``; 1 is the usual cost."""

    pending: int = 0
    """How many documents are pending."""

    pending_flood: int = 0
    """How many of them are a flood's, beyond the last load: they do not count in the load."""

    scheduled: int = 0
    """How many documents are due later."""

    account_load: float = 0.0
    """The load that the document would be of its account. This and the next field are 0 unless the customer is a user of
    an account; ``peek`` of the account tells the rest."""

    account_flood: int = 0
    """The account's ``pending_flood``."""

    oldest: timedelta = timedelta()
    """For how long the oldest pending document has been due."""

    latency: timedelta = timedelta()
    """The average time from when a document is due to ``done``; 0 if it is not known."""

    lease: timedelta = timedelta()
    """How long a document before the last load counts as pending without a ``done``."""

    bounds: Optional[Bounds] = None
    """The bounds of the customer's override, if operators have set one, and if the store reads overrides."""

    override_ends_in: Optional[timedelta] = None
    """The time until the override ends; None if it has no end, or there is none."""

    degraded: bool = False
    """Redis could not answer: the state is from this process's memory."""


@dataclass(frozen=True)
class Ended:
    """A document that was pending until its ``done``. Immutable."""

    document: Name
    """As passed to ``done``."""

    latency: timedelta
    """From when it was due to ``done``, in whole milliseconds."""

    level: int
    """The level that ``submit`` gave it."""
