"""The numbers of the two rules, and each customer's policy."""

from __future__ import annotations

import enum
import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Callable, Optional, Union

from ._keys import Name

_MILLISECOND = timedelta(milliseconds=1)
_DAY = timedelta(days=1)
_MOST_LEVELS = 255  # as many as a one-byte priority can distinguish
_GREATEST_THRESHOLD = 1 << 53  # the largest that Redis's Lua, with doubles, compares exactly
_LEAST_LOAD, _GREATEST_LOAD = 1e-6, 1e9
_LOADS = (8, 64, 512, 8192, 32768)  # for six levels or more
_LOADS_OF_LEVELS = {4: (128, 8192, 32768), 5: (8, 512, 8192, 32768)}


class ResetMode(enum.Enum):
    """When the reset interval begins."""

    SINCE_LAST_UPDATE = "since_last_update"
    """With the customer's latest document. A customer who never pauses that long is never reset."""

    SINCE_LAST_RESET = "since_last_reset"
    """With the count's latest reset, whatever came in between."""


@dataclass(frozen=True)
class Policy:
    """The numbers of the two rules. ``Policy()`` is the default policy.

    thresholds
        The table of ``next``: strictly descending counts, at most 254, each from -2**53 to 2**53. A count below the first
        has level 2 or a later one, below the second 3, and so on.
    reset_interval, reset_mode
        How long a customer must pause to be reset by ``next``, whole milliseconds, at least 1; and when that begins.
    loads
        The table of ``submit``: strictly ascending loads, each from a millionth to a billion. A load above the first has
        level 2 or a later one, above the second 3, and so on; above the last, a document is a flood's. The default is 8,
        64, 512, 8192, 32768, or fewer of them if ``thresholds`` give fewer than six levels.
    turns
        The number of extra levels in which floods take turns: of a customer's pending documents of a flood, the
        ⌈4096^(k/turns)⌉-th and later ones go k levels further. Loads and turns give at most 255 levels. 0 means the
        default: with ``loads`` none, without them the number of levels that ``thresholds`` give beyond the loads'.
    in_order
        Whether no document gets an earlier level by ``submit`` than the newest pending one of its customer.
    """

    thresholds: Sequence[int] = (-2, -4, -6, -8, -10, -12, -14, -20)
    reset_interval: timedelta = timedelta(seconds=1500)
    reset_mode: ResetMode = ResetMode.SINCE_LAST_UPDATE
    loads: Sequence[float] = None  # type: ignore[assignment]  # filled by __post_init__
    turns: int = 0
    in_order: bool = False

    _ascending: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _millionths: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _turns_begin: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        thresholds = tuple(self.thresholds)
        for threshold in thresholds:
            if isinstance(threshold, bool) or not isinstance(threshold, int):
                raise TypeError(f"the threshold {threshold!r} must be an int")
            if abs(threshold) > _GREATEST_THRESHOLD:
                raise ValueError(f"the threshold {threshold} is beyond 2**53")
        if len(thresholds) >= _MOST_LEVELS:
            raise ValueError(f"{len(thresholds)} thresholds are more than {_MOST_LEVELS - 1}")
        for before, threshold in zip(thresholds, thresholds[1:]):
            if threshold >= before:
                raise ValueError(f"the threshold {threshold} must be below {before}")
        if whole_milliseconds("the reset interval", self.reset_interval) < 1:
            raise ValueError(f"the reset interval {self.reset_interval.total_seconds()} s must be at least 1 ms")
        if not isinstance(self.reset_mode, ResetMode):
            raise TypeError(f"the reset mode {self.reset_mode!r} must be a ResetMode")
        if not isinstance(self.in_order, bool):
            raise TypeError(f"in_order must be a bool, not {type(self.in_order).__name__}")
        levels, turns = len(thresholds) + 1, self.turns
        loads = _LOADS_OF_LEVELS.get(levels, _LOADS[max(6 - levels, 0) :]) if self.loads is None else tuple(self.loads)
        _check_loads(loads, turns)
        if self.loads is None and turns == 0:
            turns = levels - 1 - len(loads)
        vars(self).update(  # because a frozen dataclass refuses assignments
            thresholds=thresholds, loads=loads, turns=turns, _ascending=tuple(-threshold for threshold in thresholds),
            _millionths=tuple(map(_millionths_of, loads)), _turns_begin=tuple(math.ceil(2 ** (12 * turn / turns)) for turn in range(1, turns + 1)),
        )  # fmt: skip

    def level(self, count: int) -> int:
        """Returns the level of a count."""
        return 1 + bisect_left(self._ascending, -count)

    def level_of_load(self, load: float, pending_flood: int = 0) -> int:
        """Returns the level of a load. Beyond the last of ``loads`` it depends on the turn: ``pending_flood`` is how
        many of the customer's documents are pending there, this one included. An infinite load is beyond the last."""
        level = 1 + (bisect_left(self._millionths, _millionths_of(load)) if load < math.inf else len(self.loads))
        return level + bisect_right(self._turns_begin, pending_flood) if level > len(self.loads) else level

    @property
    def last(self) -> int:
        """The last level that either rule gives, turns included."""
        return 1 + max(len(self.thresholds), len(self.loads) + self.turns)


def _millionths_of(load: float) -> int:
    return math.floor(min(load, _GREATEST_LOAD) * 1e6 + 0.5)


def _check_loads(loads: Sequence[float], turns: int) -> None:
    if isinstance(turns, bool) or not isinstance(turns, int):
        raise TypeError(f"turns {turns!r} must be an int")
    if turns < 0 or len(loads) + 1 + turns > _MOST_LEVELS:
        raise ValueError(f"{len(loads)} loads and {turns} turns are not 1 to {_MOST_LEVELS} levels")
    for load in loads:
        if isinstance(load, bool) or not isinstance(load, (int, float)):
            raise TypeError(f"the load {load!r} must be a number")
        if not _LEAST_LOAD <= load <= _GREATEST_LOAD:
            raise ValueError(f"the load {load} must be from a millionth to a billion")
    for before, load in zip(loads, loads[1:]):
        if _millionths_of(load) <= _millionths_of(before):
            raise ValueError(f"the load {load} must be above {before} by a millionth")


Tiers = Optional[Mapping[str, Policy]]
TierOf = Optional[Callable[[Any], Optional[str]]]


class Policies:
    """The policy of each customer."""

    def __init__(self, policy: Policy, tiers: Tiers, tier_of: TierOf) -> None:
        self._policy = policy
        self._tiers = dict(tiers or {})
        self._tier_of = tier_of
        for name, tier in [("policy", policy), *self._tiers.items()]:
            if not isinstance(tier, Policy):
                raise TypeError(f"{name!r} must be a Policy, not {type(tier).__name__}")
            # One queue compares the levels of all customers.
            if tier.last > policy.last:
                raise ValueError(f'tier "{name!s:.80}" has {tier.last} levels, more than the {policy.last} of the policy')
        if self._tiers and tier_of is None:
            raise ValueError("tiers without a tier_of would never be used")
        if tier_of is not None and not callable(tier_of):
            raise TypeError("tier_of must be a function of a customer")

    @property
    def last(self) -> int:
        return self._policy.last

    def replaced_by(self, policy: Policy, tiers: Mapping[str, Policy]) -> Policies:
        """Returns policies that operators set in place of these, for customers of the same tiers."""
        if policy.last > self.last:
            raise ValueError(f"its queue has {self.last} levels, the policies {policy.last}")
        return Policies(policy, tiers, self._tier_of or _no_tier)

    @property
    def decisive(self) -> list[tuple[str, Policy]]:
        """The policies that decide, by the bytes of their tiers' names: first the one for customers without a tier, named ""."""
        tiers = {} if self._tier_of is _no_tier else self._tiers
        return [("", self._policy), *sorted(tiers.items(), key=lambda item: str(item[0]).encode("utf-8", "replace"))]

    def policy_of(self, customer: Name) -> Policy:
        if not self._tiers or self._tier_of is None:
            return self._policy
        tier = self._tier_of(customer)
        return self._policy if tier is None else self._tiers.get(tier, self._policy)


def _no_tier(customer: Any) -> None:
    """The tier of all customers where a store has no ``tier_of``."""


def seconds_of(what: str, time: Union[timedelta, float]) -> float:
    """Returns a time in seconds, or raises."""
    if isinstance(time, timedelta):
        return time.total_seconds()
    if isinstance(time, bool) or not isinstance(time, (int, float)):
        raise TypeError(f"{what} must be a timedelta or a number of seconds, not {type(time).__name__}")
    return time


def whole_milliseconds(what: str, time: timedelta) -> int:
    """Returns a time in milliseconds, or raises if it is not a whole number of them."""
    if not isinstance(time, timedelta):
        raise TypeError(f"{what} must be a timedelta, not {type(time).__name__}")
    if time % _MILLISECOND:
        raise ValueError(f"{what} {time.total_seconds()} s must be a whole number of milliseconds")
    return time // _MILLISECOND


def lease_milliseconds(lease: timedelta) -> int:
    """Returns a lease in milliseconds, or raises."""
    milliseconds = whole_milliseconds("the lease", lease)
    if milliseconds < 1000 or lease > _DAY:
        raise ValueError(f"the lease {lease.total_seconds()} s must be from 1 s to a day")
    return milliseconds
