"""What each method of a store sends, and how it reads the reply."""

from __future__ import annotations

import enum
import hashlib
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import islice
from numbers import Real
from typing import Any, Callable, Generic, Optional, TypeVar, Union

from ._cost import Costs
from ._decision import Bounds, Decision, Ended, Rule, State
from ._keys import Document, Keys, Name, account_of, bytes_of, keys_of, prefix_bytes
from ._memory import Memory
from ._policy import Policies, Policy, TierOf, Tiers, lease_milliseconds, seconds_of
from ._report import Window
from ._scripts import Script, plain_script, script_of

T = TypeVar("T")
Item = TypeVar("Item")

_MOST_COUNTED, _MOST_SUBMITTED, _MOST_DONE = 1_000_000, 100, 1000  # what the scripts take
_LONGEST = timedelta.max // timedelta(milliseconds=1)
_DAY = 86_400  # seconds
_MILLISECOND = timedelta(milliseconds=1)
LONGEST_DELAY = 365 * _DAY
_OVERRIDE = re.compile(rb"([<>]?=)([1-9]\d?\d?)(?![^ ])")


class Lost(enum.Enum):
    """What a lost reply means for a call."""

    MUST_NOT_BE_REPEATED = enum.auto()
    MAY_BE_REPEATED = enum.auto()  # running it twice does no harm
    CHANGES_NOTHING = enum.auto()  # so nothing is counted in any case


@dataclass(frozen=True)
class Call(Generic[T]):
    """One call of one script."""

    operation: str
    script: Script
    keys: Sequence[bytes]
    arguments: Sequence[bytes]
    lost: Lost
    least: int  # how many items the reply has at least
    read: Callable[[list[Any], bool], T]  # a reply, and whether it comes from memory instead of Redis
    documents: int = 0
    answer: Callable[[Memory], list[int]] = lambda memory: []
    takes: tuple[type, ...] = (int,)  # the types of the items
    # The script takes a deadline behind all arguments, and replies Redis's time behind all else. What Redis would run
    # after the call has ended, it refuses.
    timed: bool = False
    counts_for: bytes = b""  # the customer, if the call counts documents
    override: Optional[Call[Optional[Bounds]]] = None  # which reads the override by itself
    bounded: Callable[[list[int], Bounds], list[int]] = lambda reply, bounds: reply  # a reply without the override, with it

    def alone(self, bounds: Optional[Bounds]) -> Call[T]:
        """Returns the call with the customer's own key alone, for which the override was read before."""

        def read(reply: list[Any], degraded: bool) -> T:
            return self.read(self.bounded(reply, bounds) if bounds else reply, degraded)

        return replace(self, keys=self.keys[:1], read=read, override=None)

    def by_memory(self, memory: Memory) -> T:
        return self.read(self.answer(memory), memory.degraded)


class Calls:
    """Makes the calls of a store, and raises for wrong arguments."""

    def __init__(self, prefix: str, policy: Policy, tiers: Tiers, tier_of: TierOf, lease: timedelta, overrides: bool, accounts: bool = False) -> None:
        self._prefix = prefix_bytes(prefix)
        self.own_policies = Policies(policy, tiers, tier_of)
        self.policies = self.own_policies  # a member assigns others; calls in progress keep these
        self.lease = lease_milliseconds(lease)
        self.reads_overrides = overrides or accounts
        self.accounts = accounts
        self.window: Optional[Window] = None  # what a member reports
        self._digested: tuple[Optional[Policies], str] = (None, "")
        self._costs, self._times = Costs(), Costs()  # that submit and done are told

    def memory(self) -> Memory:
        """Returns an empty memory, which answers instead of Redis."""
        return Memory(self.own_policies.last, self.lease, accounts=self.accounts, degraded=True)

    def keys(self, customer: Name) -> Keys:
        name = bytes_of("customer", customer)
        return keys_of(self._prefix, name, self._account_of(name))

    def key(self, tag: str, end: str) -> bytes:
        """Returns a key that belongs to no customer."""
        return self._prefix + f":{{{tag}}}:{end}".encode()

    def digest(self) -> str:
        """Returns what decides, in 16 hex digits: two processes with the same digest decide alike."""
        if self._digested[0] is not self.policies:
            lines = [f"{name}\n{self.script('next', policy).sha1}\n{self.script('submit', policy).sha1}\n" for name, policy in self.policies.decisive]
            self._digested = (self.policies, hashlib.sha1("".join(lines).encode("utf-8", "replace")).hexdigest()[:16])
        return self._digested[1]

    def script(self, name: str, policy: Policy) -> Script:
        return script_of(name, policy, self.own_policies.last, self.lease)

    def next_n(self, customer: Name, n: int, operation: str = "next_n") -> Call[list[Decision]]:
        name, keys = bytes_of("customer", customer), self.keys(customer)
        if isinstance(n, bool) or not isinstance(n, int):
            raise TypeError(f"the number of documents must be an int, not {type(n).__name__}")
        if not 1 <= n <= _MOST_COUNTED:
            raise ValueError(f"the number of documents {n} must be 1 to {_MOST_COUNTED}")
        policy = self.policies.policy_of(customer)

        def read(reply: list[int], degraded: bool) -> list[Decision]:
            bounds = Bounds(*reply[4:6]) if len(reply) > 6 else None
            reset_in = _time_of(reply[2]) if len(reply) > 2 else policy.reset_interval
            counts = range(reply[1] + n - 1, reply[1] - 1, -1)
            levels = [policy.level(count) for count in counts]
            levels[-1] = reply[3] if bounds else reply[0]
            return self._decided("count", name, [
                Decision(bounds.level(level) if bounds else level, level, count, reset_in, degraded=degraded) for level, count in zip(levels, counts)
            ])  # fmt: skip

        def bounded(reply: list[int], bounds: Bounds) -> list[int]:
            left = reply[2] if len(reply) > 2 else policy.reset_interval // _MILLISECOND
            return [bounds.level(reply[0]), reply[1], left, reply[0], bounds.earliest, bounds.latest, -1]

        return Call(
            operation, self.script("next", policy), [keys.count, *self._overrides(name)], [b"%d" % n] if n > 1 else (), Lost.MUST_NOT_BE_REPEATED, 2, read, n,
            lambda memory: memory.next(name, policy, n), counts_for=name, override=self._override_alone(name), bounded=bounded,
        )  # fmt: skip

    def submit_n(self, customer: Name, documents: Iterable[Union[Document, Name]], operation: str = "submit_n") -> Call[list[Decision]]:
        name, keys = bytes_of("customer", customer), self.keys(customer)
        listed = [item if isinstance(item, Document) else Document(item) for item in _listed(documents, _MOST_SUBMITTED)]
        ids = [bytes_of("document", document.id) for document in listed]
        costs, delays = [checked_cost(document.cost) for document in listed], [_delay_of(document) for document in listed]
        relative = [self._costs.relative(cost) for cost in costs]
        arguments = [b"%d %d" % (cost, delay) if delay else b"%d" % cost for cost, delay in zip(relative, delays)]
        policy = self.policies.policy_of(customer)

        def read(reply: list[int], degraded: bool) -> list[Decision]:
            self._costs.add(self._account_of(name) or name, costs)
            return self._decided("load", name, [
                Decision(reply[i], reply[i + 3], load=reply[i + 1] / 1e6, pending=reply[i + 2], degraded=degraded) for i in range(0, 4 * len(ids), 4)
            ])  # fmt: skip

        return Call(
            operation, self.script("submit", policy), [keys.pending, *self._overrides(name, "pending")],
            [part for pair in zip(ids, arguments) for part in pair], Lost.MAY_BE_REPEATED, 4 * len(ids), read, len(ids),
            lambda memory: memory.submit(name, policy, ids, relative, delays), timed=True, counts_for=name, override=self._override_alone(name),
            bounded=lambda reply, bounds: [item if i % 4 else bounds.level(item) for i, item in enumerate(reply)],
        )  # fmt: skip

    def done_n(self, customer: Name, documents: Iterable[Name], took: timedelta, operation: str = "done_n") -> Call[list[Ended]]:
        name, documents = bytes_of("customer", customer), _listed(documents, _MOST_DONE)
        ids = [bytes_of("document", document) for document in documents]
        if not isinstance(took, timedelta):
            raise TypeError(f"took must be a timedelta, not {type(took).__name__}")
        if took < timedelta():
            raise ValueError(f"took is {took.total_seconds()} s, less than 0")
        seconds = min(took.total_seconds(), _DAY) / len(ids)
        relative = self._times.relative(seconds)

        def read(reply: list[int], degraded: bool) -> list[Ended]:
            ended = [Ended(document, _time_of(latency), level) for document, latency, level in zip(documents, reply[::2], reply[1::2]) if level > 0]
            self._times.add(self._account_of(name) or name, [seconds] * len(ended))
            if self.window is not None:
                self.window.ended(ended)
            return ended

        return Call(
            operation, plain_script("done"), [self.keys(name).pending, *self._of_account(name, "pending")], [b"%d" % relative, b"", *ids], Lost.MAY_BE_REPEATED, 2 * len(ids), read,
            len(ids), lambda memory: memory.done(name, ids, relative),
        )  # fmt: skip

    def peek(self, customer: Name) -> Call[State]:
        name, policy, keys = bytes_of("customer", customer), self.policies.policy_of(customer), self.keys(customer)
        return Call(
            "peek", self.script("peek", policy), [keys.count, keys.pending, *self._overrides(name, "pending")], (), Lost.CHANGES_NOTHING, 20, _state,
            answer=lambda memory: memory.peek(name, policy),
        )  # fmt: skip

    def reset(self, customer: Name) -> Call[None]:
        name, keys = bytes_of("customer", customer), self.keys(customer)
        return Call(
            "reset", plain_script("reset"), [keys.count, keys.pending], (), Lost.MUST_NOT_BE_REPEATED, 1, lambda reply, degraded: None,
            answer=lambda memory: memory.reset(name),
        )  # fmt: skip

    def _account_of(self, name: bytes) -> bytes:
        return account_of(name) if self.accounts else b""

    def _of_account(self, name: bytes, *kinds: str) -> list[bytes]:
        """Returns keys of a user's account."""
        account = self._account_of(name)
        keys = keys_of(self._prefix, account)
        return [getattr(keys, kind) for kind in kinds] if account else []

    def _overrides(self, name: bytes, *kinds: str) -> list[bytes]:
        """Returns the keys behind a customer's own: of the override, and those of some kinds and the override of the account."""
        return [self.keys(name).override, *self._of_account(name, *kinds, "override")] if self.reads_overrides else []

    def _override_alone(self, name: bytes) -> Optional[Call[Optional[Bounds]]]:
        if not self.reads_overrides or self._account_of(name):
            return None

        def read(reply: list[Any], degraded: bool) -> Optional[Bounds]:
            override = _OVERRIDE.match(reply[1] if len(reply) > 1 else b"")
            if override is None:
                return None
            level = min(int(override[2]), self.own_policies.last)
            return Bounds(1 if override[1] == b"<=" else level, self.own_policies.last if override[1] == b">=" else level)

        # follow.lua returns any string.
        return Call("override", plain_script("follow"), [self.keys(name).override], [b""], Lost.CHANGES_NOTHING, 1, read, takes=(int, bytes))

    def probe(self, key: bytes) -> Call[State]:
        """Returns a call about the customer of a key, which changes nothing."""
        tagged = key.rpartition(b":")[0]
        return Call("probe", self.script("peek", Policy()), [tagged + b":count", tagged + b":pending"], (), Lost.CHANGES_NOTHING, 20, _state)

    def _decided(self, rule: str, customer: bytes, decisions: list[Decision]) -> list[Decision]:
        if self.window is not None:
            self.window.decided(rule, customer, decisions)
        return decisions


def _listed(documents: Iterable[Item], most: int) -> list[Item]:
    if isinstance(documents, (str, bytes)):
        raise TypeError("documents must be a list of them, not one")
    listed = list(islice(documents, most + 1))
    if not 1 <= len(listed) <= most:
        raise ValueError(f"there are no documents, or more than {most}, in the call")
    return listed


def checked_cost(cost: float) -> float:
    if isinstance(cost, bool) or not isinstance(cost, Real):
        raise TypeError(f"a cost must be 0 (unknown) or a positive finite number, not {type(cost).__name__}")
    if not 0 <= cost <= sys.float_info.max:
        raise ValueError(f"a cost must be 0 (unknown) or a positive finite number, not {cost}")
    return float(cost)


def _delay_of(document: Document) -> int:
    """Returns the delay of a document in milliseconds, or raises."""
    seconds = seconds_of("the delay", document.delay)
    if not 0 <= seconds <= LONGEST_DELAY:
        raise ValueError(f"the delay {document.delay} must be from 0 s to 365 days")
    return timedelta(seconds=seconds) // _MILLISECOND


def _state(reply: list[int], degraded: bool) -> State:
    rule = (Rule.UNKNOWN, Rule.BY_COUNT, Rule.BY_LOAD)[reply[0]]
    level, next_level, count, reset_in, load, recent, cost, pending, pending_flood, oldest, latency, lease, rule_level = reply[1:14]
    earliest, latest, ends_in, scheduled, account_load, account_flood = reply[14:20]
    return State(
        rule, level, next_level, rule_level, count, _time_of(reset_in), load / 1e6, recent / 1000, cost / 1000,
        pending, pending_flood, scheduled, account_load / 1e6, account_flood, _time_of(oldest), _time_of(latency), _time_of(lease),
        Bounds(earliest, latest) if latest else None, _time_of(ends_in) if latest and ends_in >= 0 else None, degraded,
    )  # fmt: skip


def _time_of(milliseconds: int) -> timedelta:
    """Returns a time, capped at the longest possible: another program may set a key's TTL."""
    return timedelta(milliseconds=max(0, min(milliseconds, _LONGEST)))
