"""The numbers of the two rules, and who has which."""

from __future__ import annotations

import enum
import math
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
_MOST_LEVELS_BY_LOAD = 63  # what the score of a pending document has room for
_LEAST_LOAD, _GREATEST_LOAD = 1e-6, 1e9
_DEFAULT_LOADS = (2, 8, 32, 128, 512, 2048, 8192, 32768)


class ResetMode(enum.Enum):
    """From which moment the reset interval runs."""

    SINCE_LAST_UPDATE = "since_last_update"
    """From the customer's last document. Who never pauses that long is never reset."""

    SINCE_LAST_RESET = "since_last_reset"
    """From the count's last reset, whatever came in between."""


@dataclass(frozen=True)
class Policy:
    """The numbers of the two rules. ``Policy()`` is the default one.

    All processes that share a prefix, in any language, need the same policies.
    """

    thresholds: Sequence[int] = (-2, -4, -6, -8, -10, -12, -14, -20)
    """The table of ``next``: strictly descending counts, at most 254, each from -2**53 to
    2**53. A count below the first has level 2 or a later one, below the second 3, and so
    on. Without any there is one level."""

    reset_interval: timedelta = timedelta(seconds=1500)
    """How long a customer must pause to be reset by ``next``: whole milliseconds, at least
    1."""

    reset_mode: ResetMode = ResetMode.SINCE_LAST_UPDATE
    """From which moment the interval runs."""

    loads: Sequence[float] = None  # type: ignore[assignment]  # filled by __post_init__
    """The table of ``submit``: strictly ascending loads, each from a millionth to a billion.
    A load above the first has level 2 or a later one, above the second 3, and so on. The
    default is 2, 8, 32, 128, 512, 2048, 8192, 32768, or fewer of them if there are fewer
    thresholds than that. Empty means one level."""

    turns: int = 0
    """How many levels more there are, behind the last of ``loads``, for floods to take
    turns in: the customer's documents that are pending there have level +0, +1, +1, +2,
    +2, +2, +2, +3 and so on. Take as many as the queue has levels to spare; loads and
    turns give at most 63 levels."""

    _ascending: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _millionths: tuple[int, ...] = field(init=False, repr=False, compare=False)

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
        loads = _default_loads(len(thresholds) + 1) if self.loads is None else tuple(self.loads)
        _check_loads(loads, self.turns)
        object.__setattr__(self, "thresholds", thresholds)
        object.__setattr__(self, "loads", loads)
        object.__setattr__(self, "_ascending", tuple(-threshold for threshold in thresholds))
        object.__setattr__(self, "_millionths", tuple(map(millionths, loads)))

    def level(self, count: int) -> int:
        """Returns the level of a count."""
        return 1 + bisect_left(self._ascending, -count)

    def level_of_load(self, load: float) -> int:
        """Returns the level of a load, without the turns."""
        return 1 + bisect_left(self._millionths, millionths(load))

    @property
    def last(self) -> int:
        """The last level that either rule gives, turns included."""
        return 1 + max(len(self.thresholds), len(self.loads) + self.turns)


def millionths(load: float) -> int:
    """Returns a load in millionths."""
    return math.floor(min(load, _GREATEST_LOAD) * 1e6 + 0.5)


def _default_loads(levels: int) -> tuple[float, ...]:
    """The loads of so many levels, or of nine if there are more. With fewer, floods stay
    apart from those who send all day: the last two loads stay, and the levels below them
    are joined."""
    most = len(_DEFAULT_LOADS)
    if levels > most:
        return _DEFAULT_LOADS
    kept, joined = _DEFAULT_LOADS[most - min(levels - 1, 2) :], levels - 2
    # Joined into so many, levels 1 to 7 end evenly spaced.
    ends = ((2 * (most - 1) * i + joined) // (2 * joined) for i in range(1, joined))
    return (*(_DEFAULT_LOADS[end - 1] for end in ends), *kept)


def _check_loads(loads: Sequence[float], turns: int) -> None:
    if isinstance(turns, bool) or not isinstance(turns, int):
        raise TypeError(f"turns {turns!r} is not an int")
    if turns < 0 or len(loads) + 1 + turns > _MOST_LEVELS_BY_LOAD:
        raise ValueError(f"{len(loads)} loads and {turns} turns are not 1 to {_MOST_LEVELS_BY_LOAD} levels")
    for load in loads:
        if isinstance(load, bool) or not isinstance(load, (int, float)):
            raise TypeError(f"the load {load!r} is not a number")
        if not _LEAST_LOAD <= load <= _GREATEST_LOAD:
            raise ValueError(f"the load {load} is not from a millionth to a billion")
    for before, load in zip(loads, loads[1:]):
        if millionths(load) <= millionths(before):
            raise ValueError(f"the load {load} is not above {before} by a millionth")


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

    def ruled(self, policy: Policy, tiers: Mapping[str, Policy]) -> Policies:
        """Returns the policies of operators' rules, for the same customers of tiers."""
        return Policies(policy, tiers, self._tier_of or (lambda customer: None))

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
