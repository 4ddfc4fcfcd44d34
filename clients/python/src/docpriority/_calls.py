"""What each method of a store sends, and how it reads the reply."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import islice
from typing import Any, Callable, Generic, Optional, TypeVar

from ._cost import Mean
from ._decision import Decision
from ._keys import Name, bytes_of, key_of, prefix_bytes
from ._policy import Policies, Policy, lease_milliseconds
from ._scripts import Script, Scripts

T = TypeVar("T")

MOST_COUNTED, MOST_SUBMITTED, MOST_DONE = 1_000_000, 100, 1000  # what the scripts take

_LONGEST = timedelta.max // timedelta(milliseconds=1)
_DAY = 86_400  # seconds


class Lost(enum.Enum):
    """What a lost answer means for a call."""

    MUST_NOT_BE_REPEATED = enum.auto()
    MAY_BE_REPEATED = enum.auto()  # running it twice is as good as once
    CHANGES_NOTHING = enum.auto()  # not counted in any case


class Call(Generic[T]):
    """One call of one script."""

    def __init__(
        self,
        operation: str,
        script: Script,
        keys: Sequence[bytes],
        arguments: Sequence[bytes],
        lost: Lost,
        integers: int,  # in the reply, at least
        read: Callable[[list[int]], T],
    ) -> None:
        self.operation = operation
        self.script = script
        self.keys = keys
        self.arguments = arguments
        self.lost = lost
        self.integers = integers
        self.read = read


class Calls:
    """Makes the calls of a store, and raises where a caller asks for what cannot be."""

    def __init__(
        self,
        prefix: str,
        policy: Policy,
        tiers: Optional[Mapping[str, Policy]],
        tier_of: Optional[Callable[[Any], Optional[str]]],
        lease: timedelta,
    ) -> None:
        self._prefix = prefix_bytes(prefix)
        self.policies = Policies(policy, tiers, tier_of)
        milliseconds = lease_milliseconds(lease)
        self._scripts = {policy: Scripts(policy, milliseconds) for policy in self.policies.all()}
        self._mean = Mean()

    def key(self, customer: Name, end: str) -> bytes:
        return key_of(self._prefix, bytes_of("customer", customer), end)

    def script(self, name: str, customer: Name) -> Script:
        return self._scripts[self.policies.of(customer)][name]

    def next(self, customer: Name) -> Call[Decision]:
        call = self._count("next", customer, 1, ())
        return Call(call.operation, call.script, call.keys, (), call.lost, 2, lambda reply: call.read(reply)[0])

    def next_n(self, customer: Name, n: int) -> Call[list[Decision]]:
        if isinstance(n, bool) or not isinstance(n, int):
            raise TypeError(f"the number of documents is an int, not {type(n).__name__}")
        if not 1 <= n <= MOST_COUNTED:
            raise ValueError(f"the number of documents {n} is not 1 to {MOST_COUNTED}")
        return self._count("next_n", customer, n, [b"%d" % n])

    def submit(self, customer: Name, document: Name) -> Call[Decision]:
        call = self._submit("submit", customer, [bytes_of("document", document)])
        return Call(call.operation, call.script, call.keys, call.arguments, call.lost, 4, lambda reply: call.read(reply)[0])

    def submit_n(self, customer: Name, documents: Iterable[Name]) -> Call[list[Decision]]:
        return self._submit("submit_n", customer, _documents(documents, MOST_SUBMITTED))

    def done(self, customer: Name, document: Name, took: timedelta) -> Call[None]:
        return self._done("done", customer, [bytes_of("document", document)], took)

    def done_n(self, customer: Name, documents: Iterable[Name], took: timedelta) -> Call[None]:
        return self._done("done_n", customer, _documents(documents, MOST_DONE), took)

    def peek(self, customer: Name) -> Call[Decision]:
        def read(reply: list[int]) -> Decision:
            return Decision(reply[0], reply[1], reply[2], _time_of(reply[3]))

        return Call("peek", self.script("peek", customer), self._all_keys(customer), (), Lost.CHANGES_NOTHING, 11, read)

    def reset(self, customer: Name) -> Call[None]:
        keys = self._all_keys(customer)
        return Call("reset", self.script("reset", customer), keys, (), Lost.MUST_NOT_BE_REPEATED, 1, lambda reply: None)

    def _count(self, operation: str, customer: Name, n: int, arguments: Sequence[bytes]) -> Call[list[Decision]]:
        keys = [self.key(customer, "count")]
        policy = self.policies.of(customer)

        def read(reply: list[int]) -> list[Decision]:
            level, last = reply[0], reply[1]
            reset_in = _time_of(reply[2]) if len(reply) > 2 else policy.reset_interval
            before = [Decision(policy.level(count), count, 0, reset_in) for count in range(last + n - 1, last, -1)]
            return [*before, Decision(level, last, 0, reset_in)]

        script = self._scripts[policy]["next"]
        return Call(operation, script, keys, arguments, Lost.MUST_NOT_BE_REPEATED, 2, read)

    def _submit(self, operation: str, customer: Name, documents: Sequence[bytes]) -> Call[list[Decision]]:
        n = len(documents)

        def read(reply: list[int]) -> list[Decision]:
            reset_in = _time_of(reply[3 * n])
            return [Decision(reply[i], reply[i + 1], reply[i + 2], reset_in) for i in range(0, 3 * n, 3)]

        keys = self._all_keys(customer)
        script = self.script("submit", customer)
        return Call(operation, script, keys, documents, Lost.MAY_BE_REPEATED, 3 * n + 1, read)

    def _done(self, operation: str, customer: Name, documents: Sequence[bytes], took: timedelta) -> Call[None]:
        keys = self._all_keys(customer)[1:]
        if not isinstance(took, timedelta):
            raise TypeError(f"took is a timedelta, not {type(took).__name__}")
        if took < timedelta():
            raise ValueError(f"a document cannot have taken {took}")
        n = len(documents)

        def read(reply: list[int]) -> None:
            self._mean.add(took, n, reply[0])

        arguments = [b"%d" % self._mean.relative(took, n), *documents]
        return Call(operation, self.script("done", customer), keys, arguments, Lost.MAY_BE_REPEATED, 1, read)

    def _all_keys(self, customer: Name) -> list[bytes]:
        return [self.key(customer, end) for end in ("count", "pending", "usage")]


def _documents(documents: Iterable[Name], most: int) -> list[bytes]:
    if isinstance(documents, (str, bytes)):
        raise TypeError("documents is a list of them, not one")
    named = [bytes_of("document", document) for document in islice(documents, most + 1)]
    if not named:
        raise ValueError("there are no documents in the call")
    if len(named) > most:
        raise ValueError(f"there are more than {most} documents in the call")
    return named


def _time_of(milliseconds: int) -> timedelta:
    """Returns a time, as long as there can be one: another program may set a key's TTL."""
    return timedelta(milliseconds=max(0, min(milliseconds, _LONGEST)))


def checked_timeout(timeout: float) -> float:
    """Returns a timeout in seconds, or raises."""
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise TypeError(f"the timeout is seconds, not {type(timeout).__name__}")
    if not 0 < timeout <= _DAY:
        raise ValueError("the timeout is not above 0 seconds and at most a day")
    return float(timeout)
