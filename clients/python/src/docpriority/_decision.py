"""The results of a store's calls."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import timedelta
from typing import Optional

from ._keys import Name


@dataclass(frozen=True)
class Decision:
    """The level of a document, and the numbers behind it. Immutable.

    level
        1 is processed first, ``Store.last`` last.
    rule_level
        The level by the rule alone: an operator's override may have changed it.
    count, reset_in
        By ``next``: the customer's count after the document (0 after a reset, then -1, -2 and so on), and the time until
        it is reset if no document arrives.
    load, pending
        By ``submit``: recent × pending × cost, this document included, at most a billion; and the customer's documents
        that are pending when this one is due, itself included.
    degraded
        Redis could not answer: the level comes from what this process remembers.
    """

    level: int
    rule_level: int
    count: int = 0
    reset_in: timedelta = timedelta()
    load: float = 0.0
    pending: int = 0
    degraded: bool = False


@dataclass(frozen=True)
class Bounds:
    """The earliest and the latest level that an operators' override sets for a customer's documents, which are still
    counted. If both are equal, it is the level. Immutable."""

    earliest: int
    latest: int

    def level(self, level: int) -> int:
        """Returns the level within the bounds that is nearest to a level."""
        return min(max(level, self.earliest), self.latest)


class Rule(enum.Enum):
    """The rule by which a customer's documents get their levels. ``UNKNOWN``: nothing is known about the customer."""

    UNKNOWN = "unknown"
    BY_COUNT = "by_count"
    BY_LOAD = "by_load"


@dataclass(frozen=True)
class State:
    """Everything known about a customer: it explains a document's level and predicts the next one. Immutable.

    rule
        By load if any submission is still remembered, else by count if there is a count.
    level
        Of the customer's latest document. By load, of the latest pending document, and 0 if none is pending.
    next_level, rule_level
        Of a document that arrives now and costs as much as the customer's others, with an override applied; and by the
        rule alone.
    count, reset_in
        The count after the latest ``next``, and the time until it is reset; 0 if there is no count.
    load
        Of a document that arrives now. This field and those that follow are 0 unless the rule is by load.
    recent
        The documents submitted recently, at most 512: each counts 1, then half as much after each day.
    cost
        Of the customer's documents, by the times passed to ``done``; 1 is the usual cost.
    pending, pending_flood, scheduled
        How many documents are pending; how many of them are a flood's, which do not count in the load; and how many
        more are due later.
    account_load, account_flood
        The load that the document would be of its account, and the account's ``pending_flood``; 0 unless the customer is
        a user of one.
    oldest, latency
        For how long the oldest pending document has been due, and the average time from then to ``done``; 0 if it is
        not known.
    lease
        How long a document before the last load counts as pending without a ``done``.
    bounds, override_ends_in
        The bounds of the customer's override, if there is one and the store reads overrides, and the time until its end;
        None if it has no end.
    degraded
        Redis could not answer: the state is from this process's memory.
    """

    rule: Rule
    level: int
    next_level: int
    rule_level: int
    count: int = 0
    reset_in: timedelta = timedelta()
    load: float = 0.0
    recent: float = 0.0
    cost: float = 0.0
    pending: int = 0
    pending_flood: int = 0
    scheduled: int = 0
    account_load: float = 0.0
    account_flood: int = 0
    oldest: timedelta = timedelta()
    latency: timedelta = timedelta()
    lease: timedelta = timedelta()
    bounds: Optional[Bounds] = None
    override_ends_in: Optional[timedelta] = None
    degraded: bool = False


@dataclass(frozen=True)
class Ended:
    """A document that was pending until its ``done``, as passed to it; the time from when it was due, in whole
    milliseconds; and the level that ``submit`` gave it. Immutable."""

    document: Name
    latency: timedelta
    level: int
