"""The rule by which a count becomes a level, and who has which."""

from __future__ import annotations

import enum
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Callable, Optional

from ._keys import Name

_MILLISECOND = timedelta(milliseconds=1)
_DAY = timedelta(days=1)
_MOST_THRESHOLDS = 254  # 255 levels are as many as a priority of one byte can tell apart
_GREATEST_THRESHOLD = 1 << 53  # Redis's Lua has doubles, and compares no more exactly


class ResetMode(enum.Enum):
    """From which moment the reset interval runs."""

    SINCE_LAST_UPDATE = "since_last_update"
    """From the customer's last document. Who never pauses that long is never reset."""

    SINCE_LAST_RESET = "since_last_reset"
    """From the count's last reset, whatever came in between."""


@dataclass(frozen=True)
class Policy:
    """The rule by which a count becomes a level. ``Policy()`` is the default one.

    All processes that share a prefix, in any language, need the same policies.
    """

    thresholds: Sequence[int] = (-2, -4, -6, -8, -10, -12, -14, -20)
    """Strictly descending counts, at most 254, each from -2**53 to 2**53. A count below
    the first has level 2 or a later one, below the second 3, and so on. Without any there
    is one level."""

    reset_interval: timedelta = timedelta(seconds=1500)
    """How long a customer must pause to start afresh: whole milliseconds, at least 1."""

    reset_mode: ResetMode = ResetMode.SINCE_LAST_UPDATE
    """From which moment the interval runs."""

    _ascending: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        thresholds = tuple(self.thresholds)
        for threshold in thresholds:
            if isinstance(threshold, bool) or not isinstance(threshold, int):
                raise TypeError(f"the threshold {threshold!r} is not an int")
            if abs(threshold) > _GREATEST_THRESHOLD:
                raise ValueError(f"the threshold {threshold} is beyond 2**53")
        if len(thresholds) > _MOST_THRESHOLDS:
            raise ValueError(f"{len(thresholds)} thresholds are more than {_MOST_THRESHOLDS}")
        for before, threshold in zip(thresholds, thresholds[1:]):
            if threshold >= before:
                raise ValueError(f"the threshold {threshold} is not below {before}")
        if whole_milliseconds("the reset interval", self.reset_interval) < 1:
            raise ValueError(f"the reset interval {self.reset_interval} is not at least 1 ms")
        if not isinstance(self.reset_mode, ResetMode):
            raise TypeError(f"the reset mode {self.reset_mode!r} is not a ResetMode")
        object.__setattr__(self, "thresholds", thresholds)
        object.__setattr__(self, "_ascending", tuple(-threshold for threshold in thresholds))

    def level(self, count: int) -> int:
        """Returns the level of a count."""
        return 1 + bisect_left(self._ascending, -count)

    @property
    def last(self) -> int:
        """The level that is processed last."""
        return 1 + len(self.thresholds)


class Policies:
    """Which policy each customer has."""

    def __init__(
        self,
        policy: Policy,
        tiers: Optional[Mapping[str, Policy]],
        tier_of: Optional[Callable[[Any], Optional[str]]],
    ) -> None:
        self._policy = policy
        self._tiers = dict(tiers or {})
        self._tier_of = tier_of
        for name, tier in [("policy", policy), *self._tiers.items()]:
            if not isinstance(tier, Policy):
                raise TypeError(f"{name!r} is a Policy, not {type(tier).__name__}")
            # Levels of all customers stand in one queue, and are compared there.
            if tier.last > policy.last:
                raise ValueError(f"tier {name!r} has {tier.last} levels, more than the {policy.last} of policy")
        if self._tiers and tier_of is None:
            raise ValueError("tiers without a tier_of would never be used")
        if tier_of is not None and not callable(tier_of):
            raise TypeError("tier_of is a function of a customer")

    @property
    def last(self) -> int:
        return self._policy.last

    def of(self, customer: Name) -> Policy:
        if not self._tiers or self._tier_of is None:
            return self._policy
        tier = self._tier_of(customer)
        return self._policy if tier is None else self._tiers.get(tier, self._policy)

    def all(self) -> list[Policy]:
        return [self._policy, *self._tiers.values()]


def whole_milliseconds(what: str, time: timedelta) -> int:
    """Returns a time in milliseconds, or raises if it is not a whole number of them."""
    if not isinstance(time, timedelta):
        raise TypeError(f"{what} is a timedelta, not {type(time).__name__}")
    if time % _MILLISECOND:
        raise ValueError(f"{what} {time} is not a whole number of milliseconds")
    return time // _MILLISECOND


def lease_milliseconds(lease: timedelta) -> int:
    """Returns a lease in milliseconds, or raises."""
    milliseconds = whole_milliseconds("the lease", lease)
    if milliseconds < 1 or lease > _DAY:
        raise ValueError(f"the lease {lease} is not from 1 ms to a day")
    return milliseconds
