"""What a store answers."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import timedelta
from typing import Optional

from ._keys import Name


@dataclass(frozen=True)
class Decision:
    """The level of a document, and the numbers behind it. It cannot be changed."""

    level: int
    """1 is processed first, ``Store.last`` last."""

    rule_level: int
    """The level by the rule alone: another one than ``level`` if an override of the operators changed it."""

    count: int = 0
    """The customer's count after the document: 0 after a reset, then -1, -2 and so on.
    ``submit`` leaves it 0."""

    reset_in: timedelta = timedelta()
    """The time until the count is reset if nothing more comes. ``submit`` leaves it 0."""

    load: float = 0.0
    """Recent × pending × cost, this document included, at most a billion. ``next`` leaves
    it 0."""

    pending: int = 0
    """Documents submitted, not done, and within their leases, this one included. ``next``
    leaves it 0."""

    degraded: bool = False
    """Redis could not answer: the level comes from what this process remembers."""


@dataclass(frozen=True)
class Override:
    """What operators have set for a customer: bounds for the levels of the documents. They
    are counted all the same. It cannot be changed."""

    earliest: int
    """No document has an earlier level than this one."""

    latest: int
    """No document has a later level than this one. If both are equal, it is the level."""

    def level(self, level: int) -> int:
        """Returns what the override makes of a level."""
        return min(max(level, self.earliest), self.latest)


class Rule(enum.Enum):
    """One of the two rules by which a document gets its level."""

    UNKNOWN = "unknown"
    """Nothing is known of the customer."""

    BY_COUNT = "by_count"
    """``next`` and ``next_n``."""

    BY_LOAD = "by_load"
    """``submit`` and ``submit_n``."""


@dataclass(frozen=True)
class State:
    """All that is known of a customer: enough to say why a document has its level, and
    which level comes next. It cannot be changed."""

    rule: Rule
    """The rule that the customer is counted by: by load if anything that was submitted is
    still remembered, else by count if there is a count."""

    level: int
    """The level of the customer's last document. By load, it is the level of the newest
    pending document, and 0 if none is pending."""

    next_level: int
    """The level of a document that arrives now and costs what the customer's documents
    cost, by the operators' override if there is one."""

    rule_level: int
    """``next_level`` by the rule alone."""

    count: int = 0
    """The count after the last ``next``; 0 if there is no count."""

    reset_in: timedelta = timedelta()
    """The time until the count is reset; 0 if there is no count."""

    load: float = 0.0
    """The load of a document that arrives now. This field and those that follow are 0
    unless the rule is by load."""

    recent: float = 0.0
    """The documents submitted recently, at most 512: each counts 1, half of it a day later, and so on."""

    cost: float = 0.0
    """What the customer's documents cost, by the times given to ``done``; 1 is the median
    of the customers."""

    pending: int = 0
    """How many documents are pending."""

    pending_last: int = 0
    """How many of them were beyond the last load: they do not count in the load."""

    oldest: timedelta = timedelta()
    """The age of the oldest pending document."""

    latency: timedelta = timedelta()
    """The average time from ``submit`` to ``done``; 0 if it is not known."""

    lease: timedelta = timedelta()
    """How long a document counts as pending without a ``done``."""

    override: Optional[Override] = None
    """What operators have set for the customer, if anything, and the store reads it."""

    override_ends_in: Optional[timedelta] = None
    """The time until the override ends; None if it has no end, or there is none."""

    degraded: bool = False
    """Redis could not answer: this is what this process remembers."""


@dataclass(frozen=True)
class Ended:
    """A document that was pending until its ``done``. It cannot be changed."""

    document: Name
    """As ``done`` was given it."""

    latency: timedelta
    """From ``submit`` to ``done``, in whole milliseconds."""

    level: int
    """The level that ``submit`` gave it."""
