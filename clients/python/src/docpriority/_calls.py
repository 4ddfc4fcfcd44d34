"""What each method of a store sends, and how it reads the reply."""

from __future__ import annotations

import enum
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import islice
from numbers import Real
from typing import Any, Callable, Generic, NoReturn, Optional, TypeVar, Union

from ._cost import Mean, each
from ._decision import Decision, Ended, Override, Rule, State
from ._keys import Name, bytes_of, key_of, prefix_bytes
from ._memory import Memory, Overrides
from ._policy import Policies, Policy, lease_milliseconds
from ._report import Told
from ._scripts import Script, Scripts, plain_script

T = TypeVar("T")
U = TypeVar("U")

MOST_COUNTED, MOST_SUBMITTED, MOST_DONE = 1_000_000, 100, 1000  # what the scripts take

_LONGEST = timedelta.max // timedelta(milliseconds=1)
_DAY = 86_400  # seconds
_MOST_SECONDS = 60  # of a timeout that is a number: more are milliseconds by mistake
_LOAD = ("pending", "usage")  # the keys of the rule by load


class Lost(enum.Enum):
    """What a lost answer means for a call."""

    MUST_NOT_BE_REPEATED = enum.auto()
    MAY_BE_REPEATED = enum.auto()  # running it twice is as good as once
    CHANGES_NOTHING = enum.auto()  # not counted in any case


def _only_by_redis(memory: Memory) -> NoReturn:
    raise TypeError("memory does not answer this call")


class Call(Generic[T]):
    """One call of one script."""

    def __init__(
        self,
        operation: str,
        script: Script,
        keys: Sequence[bytes],
        arguments: Sequence[bytes],
        lost: Lost,
        least: int,  # in the reply
        read: Callable[[list[Any]], T],
        *,
        documents: int = 1,
        takes: tuple[type, ...] = (int,),  # what may be in the reply
        by_memory: Callable[[Memory], T] = _only_by_redis,
        customer: bytes = b"",
        submits: Sequence[bytes] = (),
        ends: Sequence[bytes] = (),
        seconds: float = 0,
    ) -> None:
        self.operation = operation
        self.script = script
        self.keys = keys
        self.arguments = arguments
        self.lost = lost
        self.least = least
        self.read = read
        self.documents = documents
        self.takes = takes
        self.by_memory = by_memory  # answers it without Redis
        self.customer = customer
        self.submits = submits  # documents
        self.ends = ends
        self.seconds = seconds  # that each of those took which it ends

    def then(self, change: Callable[[T], U]) -> Call[U]:
        """Returns the same call with what it returns changed."""
        read, by_memory = self.read, self.by_memory
        return Call(
            self.operation, self.script, self.keys, self.arguments, self.lost, self.least, lambda reply: change(read(reply)),
            documents=self.documents, by_memory=lambda memory: change(by_memory(memory)),
            customer=self.customer, submits=self.submits, ends=self.ends, seconds=self.seconds,
        )


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
        if not isinstance(overrides, bool):
            raise TypeError(f"overrides is a bool, not {type(overrides).__name__}")
        self.reads_overrides = overrides
        self._read = ("override",) if overrides else ()
        self.told: Optional[Told] = None  # what callers were told, if somebody wants to know
        self.seen: Optional[Overrides] = None  # by callers, if somebody wants to know
        self._told, self._took = Mean(), Mean()  # by submit, by done

    def key(self, customer: Name, end: str) -> bytes:
        return key_of(self._prefix, bytes_of("customer", customer), end)

    def follow(self, policies: Policies) -> None:
        """Decides by these policies from now on: a call that was made before ends by those
        that it was made with."""
        known, levels = self._in_force[1], self.own.last
        self._in_force = (
            policies, {policy: known.get(policy) or Scripts(policy, levels, self.lease) for policy in dict.fromkeys(policies.all())}
        )

    def policy_of(self, customer: Name) -> Policy:
        return self._in_force[0].of(customer)

    def script(self, name: str, customer: Name) -> Script:
        policies, scripts = self._in_force
        return scripts[policies.of(customer)][name]

    def next(self, customer: Name) -> Call[Decision]:
        return self._count("next", customer, 1, ()).then(lambda decisions: decisions[0])

    def next_n(self, customer: Name, n: int) -> Call[list[Decision]]:
        if isinstance(n, bool) or not isinstance(n, int):
            raise TypeError(f"the number of documents is an int, not {type(n).__name__}")
        if not 1 <= n <= MOST_COUNTED:
            raise ValueError(f"the number of documents {n} is not 1 to {MOST_COUNTED}")
        return self._count("next_n", customer, n, [b"%d" % n])

    def submit(self, customer: Name, document: Name, cost: float) -> Call[Decision]:
        return self._submit("submit", customer, [document], [cost]).then(lambda decisions: decisions[0])

    def submit_n(self, customer: Name, documents: Iterable[Name], costs: Optional[Iterable[float]]) -> Call[list[Decision]]:
        listed = _listed(documents, MOST_SUBMITTED)
        if costs is None:
            return self._submit("submit_n", customer, listed, [0.0] * len(listed))
        costs = list(islice(costs, MOST_SUBMITTED + 1))
        if len(costs) != len(listed):
            raise ValueError(f"there are {len(costs)} costs for {len(listed)} documents")
        return self._submit("submit_n", customer, listed, costs)

    def done(self, customer: Name, document: Name, took: timedelta) -> Call[Optional[Ended]]:
        return self._done("done", customer, [document], took).then(lambda ended: ended[0] if ended else None)

    def done_n(self, customer: Name, documents: Iterable[Name], took: timedelta) -> Call[list[Ended]]:
        return self._done("done_n", customer, _listed(documents, MOST_DONE), took)

    def peek(self, customer: Name) -> Call[State]:
        keys = self._keys(customer, "count", *_LOAD, *self._read)
        name, policy = bytes_of("customer", customer), self.policy_of(customer)

        def read(reply: list[int]) -> State:
            self._see(name, reply[14:17] if reply[13] else ())
            return _state(reply)

        return Call(
            "peek", self.script("peek", customer), keys, (), Lost.CHANGES_NOTHING, 17, read, documents=0, customer=name,
            by_memory=lambda memory: replace(_state(memory.peek(name, policy)), degraded=memory.degraded),
        )

    def reset(self, customer: Name) -> Call[None]:
        keys = self._keys(customer, "count", *_LOAD)
        name = bytes_of("customer", customer)
        return Call(
            "reset", self.script("reset", customer), keys, (), Lost.MUST_NOT_BE_REPEATED, 1, lambda reply: None, documents=0,
            by_memory=lambda memory: memory.reset(name), customer=name,
        )

    def failed(self, error: Exception, documents: int) -> None:
        """A call for so many documents failed."""
        if self.told is not None and documents > 0:
            self.told.failed(error, documents)

    def _count(self, operation: str, customer: Name, n: int, arguments: Sequence[bytes]) -> Call[list[Decision]]:
        keys = self._keys(customer, "count", *self._read)
        policies, scripts = self._in_force
        policy = policies.of(customer)

        def decided(reply: list[int], degraded: bool) -> list[Decision]:
            level, last = reply[0], reply[1]
            reset_in = _time_of(reply[2]) if len(reply) > 2 else policy.reset_interval
            ruled = [(policy.level(count), count) for count in range(last + n - 1, last, -1)]
            if len(reply) < 7:
                return [Decision(level, count, reset_in, degraded=degraded) for level, count in [*ruled, (level, last)]]
            override = Override(*reply[4:6])
            ruled.append((reply[3], last))
            return [Decision(override.level(level), count, reset_in, ruled=level, degraded=degraded) for level, count in ruled]

        def read(reply: list[int], degraded: bool = False) -> list[Decision]:
            if not degraded:
                self._see(name, reply[4:7])
            decisions = decided(reply, degraded)
            if self.told is not None:
                self.told.decided("count", customer, decisions)
            return decisions

        name, script = bytes_of("customer", customer), scripts[policy]["next"]
        return Call(
            operation, script, keys, arguments, Lost.MUST_NOT_BE_REPEATED, 2, read, documents=n, customer=name,
            by_memory=lambda memory: read(memory.next(name, policy, n), memory.degraded),
        )

    def _submit(self, operation: str, customer: Name, documents: Sequence[Name], costs: Sequence[float]) -> Call[list[Decision]]:
        keys = self._keys(customer, *_LOAD, *self._read)
        ids = [bytes_of("document", document) for document in documents]
        told = [_checked_cost(cost) for cost in costs]

        def read(reply: list[int], degraded: bool = False) -> list[Decision]:
            if not degraded:
                self._see(name, reply[4 * len(ids) :])
            for cost in told:
                self._told.add(cost)
            decisions = [
                Decision(level, load=load / 1e6, pending=pending, ruled=ruled, degraded=degraded)
                for level, load, pending, ruled in zip(*(reply[i : 4 * len(ids) : 4] for i in range(4)))
            ]
            if self.told is not None:
                self.told.decided("load", customer, decisions)
            return decisions

        relative = [self._told.relative(cost) for cost in told]
        arguments = [part for id, cost in zip(ids, relative) for part in (id, b"%d" % cost)]
        policies, scripts = self._in_force
        policy = policies.of(customer)
        name, script = bytes_of("customer", customer), scripts[policy]["submit"]
        return Call(
            operation, script, keys, arguments, Lost.MAY_BE_REPEATED, 4 * len(ids), read, documents=len(ids),
            by_memory=lambda memory: read(memory.submit(name, policy, ids, relative), memory.degraded), customer=name, submits=ids,
        )

    def _done(self, operation: str, customer: Name, documents: Sequence[Name], took: timedelta) -> Call[list[Ended]]:
        keys = self._keys(customer, *_LOAD)
        ids = [bytes_of("document", document) for document in documents]
        if not isinstance(took, timedelta):
            raise TypeError(f"took is a timedelta, not {type(took).__name__}")
        if took < timedelta():
            raise ValueError(f"a document cannot have taken {took}")
        seconds = each(took, len(ids))

        def read(reply: list[int]) -> list[Ended]:
            ended = []
            for document, sojourn, level in zip(documents, reply[::2], reply[1::2]):
                if level > 0:
                    self._took.add(seconds)
                    ended.append(Ended(document, _time_of(sojourn), level))
            if self.told is not None:
                self.told.ended(ended)
            return ended

        relative = self._took.relative(seconds)
        name, script = bytes_of("customer", customer), self.script("done", customer)
        return Call(
            operation, script, keys, [b"%d" % relative, *ids], Lost.MAY_BE_REPEATED, 2 * len(ids), read, documents=len(ids),
            by_memory=lambda memory: read(memory.done(name, ids, relative)), customer=name, ends=ids, seconds=seconds,
        )

    def owed(self, customer: bytes, ids: Sequence[bytes], seconds: float) -> Call[None]:
        """Returns the call that ends documents of which callers have been told already. They took some time together."""
        each = seconds / len(ids)

        def read(reply: list[int]) -> None:
            for level in reply[1::2]:
                if level > 0:
                    self._took.add(each)

        keys = [key_of(self._prefix, customer, end) for end in _LOAD]
        arguments = [b"%d" % self._took.relative(each), *ids]
        return Call("done", plain_script("done"), keys, arguments, Lost.MAY_BE_REPEATED, 2 * len(ids), read)

    def _see(self, customer: bytes, override: Sequence[int]) -> None:
        """Takes a look at the override that a reply has, or has not."""
        if self.seen is None or not self.reads_overrides:
            return
        if override:
            self.seen.put(customer, *override)
        else:
            self.seen.drop(customer)

    def _keys(self, customer: Name, *ends: str) -> list[bytes]:
        name = bytes_of("customer", customer)
        return [key_of(self._prefix, name, end) for end in ends]


def _listed(documents: Iterable[Name], most: int) -> list[Name]:
    if isinstance(documents, (str, bytes)):
        raise TypeError("documents is a list of them, not one")
    listed = list(islice(documents, most + 1))
    if not listed:
        raise ValueError("there are no documents in the call")
    if len(listed) > most:
        raise ValueError(f"there are more than {most} documents in the call")
    return listed


def _checked_cost(cost: float) -> float:
    """Returns a cost, or raises."""
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
    )


def _time_of(milliseconds: int) -> timedelta:
    """Returns a time, as long as there can be one: another program may set a key's TTL."""
    return timedelta(milliseconds=max(0, min(milliseconds, _LONGEST)))


def checked_timeout(timeout: Union[timedelta, float]) -> float:
    """Returns a timeout in seconds, or raises."""
    if isinstance(timeout, timedelta):
        timeout = timeout.total_seconds()
    elif isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise TypeError(f"the timeout is a timedelta or a number of seconds, not {type(timeout).__name__}")
    elif _MOST_SECONDS < timeout <= _DAY:
        raise ValueError(
            f"a timeout of {timeout:g} is that many seconds; write timedelta(milliseconds={timeout:g}), or timedelta(seconds={timeout:g}) if you mean it"
        )
    if not 0 < timeout <= _DAY:
        raise ValueError("the timeout is not above 0 seconds and at most a day")
    return float(timeout)
