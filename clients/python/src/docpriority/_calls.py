"""What each method of a store sends, and how it reads the reply."""

from __future__ import annotations

import enum
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import islice
from numbers import Real
from typing import Any, Callable, Generic, NoReturn, Optional, TypeVar, cast

from ._cost import Mean, each
from ._decision import Decision, Ended, Override, Rule, State
from ._keys import Name, bytes_of, key_of, prefix_bytes
from ._memory import Memory
from ._policy import Policies, Policy, lease_milliseconds
from ._report import Window
from ._scripts import Script, Scripts, plain_script

T = TypeVar("T")
U = TypeVar("U")

_MOST_COUNTED, _MOST_SUBMITTED, _MOST_DONE = 1_000_000, 100, 1000  # what the scripts take
_LONGEST = timedelta.max // timedelta(milliseconds=1)
_LOAD = ("pending", "usage")  # the keys of the rule by load


class Lost(enum.Enum):
    """What a lost answer means for a call."""

    MUST_NOT_BE_REPEATED = enum.auto()
    MAY_BE_REPEATED = enum.auto()  # running it twice is as good as once
    CHANGES_NOTHING = enum.auto()  # not counted in any case


def _only_by_redis(memory: Memory) -> NoReturn:
    raise TypeError("memory does not answer this call")


@dataclass(frozen=True)
class Call(Generic[T]):
    """One call of one script."""

    operation: str
    script: Script
    keys: Sequence[bytes]
    arguments: Sequence[bytes]
    lost: Lost
    least: int  # in the reply
    read: Callable[[list[Any]], T]
    documents: int = 0
    by_memory: Callable[[Memory], T] = _only_by_redis  # answers it without Redis
    takes: tuple[type, ...] = (int,)  # what may be in the reply
    counts_for: bytes = b""  # the customer, if it counts documents

    def then(self, change: Callable[[T], U]) -> Call[U]:
        """Returns the same call with what it returns changed."""
        of: Call[Any] = self
        return cast("Call[U]", replace(of, read=lambda reply: change(self.read(reply)), by_memory=lambda memory: change(self.by_memory(memory))))


class Calls:
    """Makes the calls of a store, and raises where a caller asks for what cannot be."""

    def __init__(
        self,
        prefix: str,
        policy: Policy,
        tiers: Optional[Mapping[str, Policy]],
        tier_of: Optional[Callable[[Any], Optional[str]]],
        lease: timedelta,
        overrides: bool,
    ) -> None:
        self._prefix = prefix_bytes(prefix)
        self.own = Policies(policy, tiers, tier_of)
        self.lease = lease_milliseconds(lease)
        self._in_force: tuple[Policies, dict[Policy, Scripts]] = (self.own, {})
        self.follow(self.own)
        self.reads_overrides = overrides
        self._read = ("override",) if overrides else ()
        self.window: Optional[Window] = None  # of a member's report
        self._cost, self._took = Mean(), Mean()  # of submit, of done

    def memory(self) -> Memory:
        return Memory(self.own.last, self.lease)

    def key(self, customer: Name, end: str) -> bytes:
        return key_of(self._prefix, bytes_of("customer", customer), end)

    def follow(self, policies: Policies) -> None:
        """Decides by these policies from now on: a call that was made before ends by those that it was made with."""
        known, levels = self._in_force[1], self.own.last
        self._in_force = (
            policies, {policy: known.get(policy) or Scripts(policy, levels, self.lease) for policy in dict.fromkeys(policies.all())}
        )  # fmt: skip

    def policy_of(self, customer: Name) -> Policy:
        return self._in_force[0].of(customer)

    def script(self, name: str, customer: Name) -> Script:
        policies, scripts = self._in_force
        return scripts[policies.of(customer)][name]

    def failed(self, error: Exception, documents: int) -> None:
        """A call for so many documents failed."""
        if self.window is not None and documents > 0:
            self.window.failed(error, documents)

    def next(self, customer: Name) -> Call[Decision]:
        return self._count("next", customer, 1, ()).then(lambda decisions: decisions[0])

    def next_n(self, customer: Name, n: int) -> Call[list[Decision]]:
        if isinstance(n, bool) or not isinstance(n, int):
            raise TypeError(f"the number of documents is an int, not {type(n).__name__}")
        if not 1 <= n <= _MOST_COUNTED:
            raise ValueError(f"the number of documents {n} is not 1 to {_MOST_COUNTED}")
        return self._count("next_n", customer, n, [b"%d" % n])

    def submit(self, customer: Name, document: Name, cost: float) -> Call[Decision]:
        return self._submit("submit", customer, [document], [cost]).then(lambda decisions: decisions[0])

    def submit_n(self, customer: Name, documents: Iterable[Name], costs: Optional[Iterable[float]]) -> Call[list[Decision]]:
        listed = _listed(documents, _MOST_SUBMITTED)
        costs = [0.0] * len(listed) if costs is None else list(islice(costs, _MOST_SUBMITTED + 1))
        if len(costs) != len(listed):
            raise ValueError(f"there are {len(costs)} costs for {len(listed)} documents")
        return self._submit("submit_n", customer, listed, costs)

    def done(self, customer: Name, document: Name, took: timedelta) -> Call[Optional[Ended]]:
        return self._done("done", customer, [document], took).then(lambda ended: ended[0] if ended else None)

    def done_n(self, customer: Name, documents: Iterable[Name], took: timedelta) -> Call[list[Ended]]:
        return self._done("done_n", customer, _listed(documents, _MOST_DONE), took)

    def peek(self, customer: Name) -> Call[State]:
        name, policy = bytes_of("customer", customer), self.policy_of(customer)
        return Call(
            "peek", self.script("peek", customer), self._keys(name, "count", *_LOAD, *self._read), (), Lost.CHANGES_NOTHING, 17, _state,
            by_memory=lambda memory: replace(_state(memory.peek(name, policy)), degraded=memory.degraded),
        )  # fmt: skip

    def reset(self, customer: Name) -> Call[None]:
        name = bytes_of("customer", customer)
        return Call(
            "reset", plain_script("reset"), self._keys(name, "count", *_LOAD), (), Lost.MUST_NOT_BE_REPEATED, 1, lambda reply: None,
            by_memory=lambda memory: memory.reset(name),
        )  # fmt: skip

    def _count(self, operation: str, customer: Name, n: int, arguments: Sequence[bytes]) -> Call[list[Decision]]:
        name = bytes_of("customer", customer)
        policies, scripts = self._in_force
        policy = policies.of(customer)

        def decided(reply: list[int], degraded: bool) -> list[Decision]:
            last = reply[1]
            reset_in = _time_of(reply[2]) if len(reply) > 2 else policy.reset_interval
            counts = range(last + n - 1, last - 1, -1)
            levels = [policy.level(count) for count in counts]
            if len(reply) < 7:
                levels[-1] = reply[0]
                return [Decision(level, count, reset_in, degraded=degraded) for level, count in zip(levels, counts)]
            levels[-1], override = reply[3], Override(*reply[4:6])
            return [Decision(override.level(level), count, reset_in, ruled=level, degraded=degraded) for level, count in zip(levels, counts)]

        def read(reply: list[int], degraded: bool = False) -> list[Decision]:
            decisions = decided(reply, degraded)
            if self.window is not None:
                self.window.decided("count", name, decisions)
            return decisions

        return Call(
            operation, scripts[policy]["next"], self._keys(name, "count", *self._read), arguments, Lost.MUST_NOT_BE_REPEATED, 2, read, n,
            lambda memory: read(memory.next(name, policy, n), memory.degraded), counts_for=name,
        )  # fmt: skip

    def _submit(self, operation: str, customer: Name, documents: Sequence[Name], costs: Sequence[float]) -> Call[list[Decision]]:
        name, ids = bytes_of("customer", customer), [bytes_of("document", document) for document in documents]
        costs = [_checked_cost(cost) for cost in costs]
        relative = [self._cost.relative(cost) for cost in costs]
        policies, scripts = self._in_force
        policy = policies.of(customer)

        def read(reply: list[int], degraded: bool = False) -> list[Decision]:
            for cost in costs:
                self._cost.add(cost)
            decisions = [
                Decision(level, load=load / 1e6, pending=pending, ruled=ruled, degraded=degraded)
                for level, load, pending, ruled in zip(*(reply[i : 4 * len(ids) : 4] for i in range(4)))
            ]
            if self.window is not None:
                self.window.decided("load", name, decisions)
            return decisions

        return Call(
            operation, scripts[policy]["submit"], self._keys(name, *_LOAD, *self._read),
            [part for id, cost in zip(ids, relative) for part in (id, b"%d" % cost)], Lost.MAY_BE_REPEATED, 4 * len(ids), read, len(ids),
            lambda memory: read(memory.submit(name, policy, ids, relative), memory.degraded), counts_for=name,
        )  # fmt: skip

    def _done(self, operation: str, customer: Name, documents: Sequence[Name], took: timedelta) -> Call[list[Ended]]:
        name, ids = bytes_of("customer", customer), [bytes_of("document", document) for document in documents]
        if not isinstance(took, timedelta):
            raise TypeError(f"took is a timedelta, not {type(took).__name__}")
        if took < timedelta():
            raise ValueError(f"a document cannot have taken {took}")
        seconds = each(took, len(ids))
        relative = self._took.relative(seconds)

        def read(reply: list[int]) -> list[Ended]:
            ended = [Ended(document, _time_of(sojourn), level) for document, sojourn, level in zip(documents, reply[::2], reply[1::2]) if level > 0]
            for _ in ended:
                self._took.add(seconds)
            if self.window is not None:
                self.window.ended(ended)
            return ended

        return Call(
            operation, plain_script("done"), self._keys(name, *_LOAD), [b"%d" % relative, *ids], Lost.MAY_BE_REPEATED, 2 * len(ids), read,
            len(ids), lambda memory: read(memory.done(name, ids, relative)),
        )  # fmt: skip

    def _keys(self, customer: bytes, *ends: str) -> list[bytes]:
        return [key_of(self._prefix, customer, end) for end in ends]


def _listed(documents: Iterable[Name], most: int) -> list[Name]:
    if isinstance(documents, (str, bytes)):
        raise TypeError("documents is a list of them, not one")
    listed = list(islice(documents, most + 1))
    if not 1 <= len(listed) <= most:
        raise ValueError(f"there are no documents, or more than {most}, in the call")
    return listed


def _checked_cost(cost: float) -> float:
    if isinstance(cost, bool) or not isinstance(cost, Real):
        raise TypeError(f"a cost is a number, not {type(cost).__name__}")
    if not 0 <= cost <= sys.float_info.max:
        raise ValueError(f"the cost {cost} is not a finite number of at least 0")
    return float(cost)


def _state(reply: list[int]) -> State:
    rule = (Rule.UNKNOWN, Rule.BY_COUNT, Rule.BY_LOAD)[reply[0]]
    level, next_level, count, reset_in, load, lately, cost, pending, pending_last, oldest, sojourn, lease = reply[1:13]
    ruled, earliest, latest, ends_in = reply[13:17]
    return State(
        rule, level, next_level, count, _time_of(reset_in), load / 1e6, lately / 1000, cost / 1000,
        pending, pending_last, _time_of(oldest), _time_of(sojourn), _time_of(lease),
        ruled, Override(earliest, latest) if ruled else None, _time_of(ends_in) if ruled and ends_in >= 0 else None,
    )  # fmt: skip


def _time_of(milliseconds: int) -> timedelta:
    """Returns a time, as long as there can be one: another program may set a key's TTL."""
    return timedelta(milliseconds=max(0, min(milliseconds, _LONGEST)))
