"""Both rules in this process's memory: what the scripts do, with the same whole numbers."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Callable, Optional

from ._policy import Policy, ResetMode, whole_milliseconds

_DAY = 86_400_000  # milliseconds, as all times here
_SHORTEST_LEASE = 180_000
_MOST_LATELY = 512_000  # thousandths of a document
_MOST_LOAD = 10**15  # millionths
_AVERAGE = 1000  # thousandths: what a document costs whose customer's cost is not known
_MOST_ENTRIES = 1_000_000
_MOST_OVERRIDES = 10_000
_MOST_SWEPT = 20_000  # customers at a time


def steady_milliseconds() -> int:
    return time.monotonic_ns() // 1_000_000


class Overrides:
    """The overrides of customers, until they end: at most 10,000, of which the oldest leave.

    Each method changes one dictionary by one operation, which Python does whole.
    """

    def __init__(self, clock: Callable[[], int] = steady_milliseconds) -> None:
        self._clock = clock
        self._by_customer: OrderedDict[bytes, tuple[int, int, float]] = OrderedDict()

    def put(self, customer: bytes, earliest: int, latest: int, ends_in: int) -> None:
        """Keeps an override; ends_in is -1 if it has no end."""
        ends_at = self._clock() + ends_in if ends_in >= 0 else math.inf
        self._by_customer.pop(customer, None)
        self._by_customer[customer] = (earliest, latest, ends_at)
        while len(self._by_customer) > _MOST_OVERRIDES:
            self._by_customer.popitem(last=False)

    def drop(self, customer: bytes) -> None:
        self._by_customer.pop(customer, None)

    def of(self, customer: bytes) -> Sequence[int]:
        """Returns the earliest level, the latest, and the time until the end; empty: there is no override."""
        found = self._by_customer.get(customer)
        if found is None:
            return ()
        earliest, latest, ends_at = found
        if ends_at == math.inf:
            return earliest, latest, -1
        left = int(ends_at) - self._clock()
        if left >= 0:
            return earliest, latest, left
        self._by_customer.pop(customer, None)
        return ()


class _Documents:
    """Pending documents in the order of their times. The value of each is 64 times its time, and its level."""

    __slots__ = ("_old", "_young")

    def __init__(self) -> None:
        self._old: Optional[OrderedDict[bytes, int]] = None  # whose leases had ended
        self._young: OrderedDict[bytes, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._young) + (len(self._old) if self._old else 0)

    def add(self, document: bytes, at: int, level: int) -> None:
        self._young[document] = 64 * at + level

    def pop(self, document: bytes) -> Optional[int]:
        value = self._young.pop(document, None)
        if value is None and self._old:
            value = self._old.pop(document, None)
        return value

    def since(self, time: int) -> int:
        """Returns how many documents are from a time on, which moves little from call to call."""
        young, old = self._young, self._old
        while young and next(iter(young.values())) < 64 * time:
            if old is None:
                old = self._old = OrderedDict()
            document, value = young.popitem(last=False)
            old[document] = value
        while old and next(reversed(old.values())) >= 64 * time:
            document, value = old.popitem()
            young[document] = value
            young.move_to_end(document, last=False)
        return len(young)

    def forget(self, time: int) -> None:
        """Forgets documents from before a time."""
        while self._old and next(iter(self._old.values())) < 64 * time:
            self._old.popitem(last=False)

    def forget_first(self) -> None:
        (self._old or self._young).popitem(last=False)

    def first(self) -> int:
        """Returns the time of the oldest of the documents that were counted last."""
        return next(iter(self._young.values())) // 64

    def last(self) -> int:
        """Returns the value of the newest of them; of the same millisecond, the one with the last level."""
        values = reversed(self._young.values())
        newest = next(values)
        for value in values:
            if value // 64 < newest // 64:
                break
            newest = max(newest, value)
        return newest


class _Customer:
    __slots__ = ("average", "beyond", "count", "fades_at", "ordinary", "reset_at", "sojourn", "used_at")

    def __init__(self) -> None:
        self.used_at = 0
        self.count, self.reset_at = 0, -1  # a document later than this resets the count
        self.fades_at = -1  # when what was submitted lately is half a document
        self.sojourn = 0  # on average, in tenths of a second; 0: not known
        self.average = _AVERAGE  # of what the documents cost, in thousandths
        self.ordinary: Optional[_Documents] = None
        self.beyond: Optional[_Documents] = None  # the last load

    def __len__(self) -> int:
        """The entries that it takes."""
        return 1 + (len(self.ordinary) if self.ordinary else 0) + (len(self.beyond) if self.beyond else 0)

    def over(self, now: int) -> bool:
        """Reports whether nothing of it matters any more."""
        return now > self.reset_at and now > self.fades_at and now - self.used_at > _DAY

    def lately(self, now: int) -> int:
        left = self.fades_at - now
        return min(math.floor(1000 * 2 ** (left / _DAY - 1) + 0.5), _MOST_LATELY) if left > 0 else 0

    def submitted(self, lately: int, now: int) -> None:
        self.fades_at = now + math.floor(_DAY * (1 + math.log2(min(lately, _MOST_LATELY) / 1000)) + 0.5)

    def lease(self, longest: int) -> int:
        return min(max(2000 * self.sojourn, _SHORTEST_LEASE), longest) if self.sojourn else longest

    def pending(self, since: int) -> tuple[int, int]:
        """Returns how many documents are pending before the last load, and beyond it."""
        return (self.ordinary.since(since) if self.ordinary else 0, self.beyond.since(since) if self.beyond else 0)

    def forget(self, time: int) -> None:
        for documents in (self.ordinary, self.beyond):
            if documents:
                documents.forget(time)

    def forget_first(self) -> None:
        documents = self.ordinary or self.beyond
        if documents:
            documents.forget_first()

    def add(self, document: bytes, at: int, level: int, beyond: bool) -> None:
        if beyond:
            self.beyond = self.beyond if self.beyond is not None else _Documents()
            self.beyond.add(document, at, level)
        else:
            self.ordinary = self.ordinary if self.ordinary is not None else _Documents()
            self.ordinary.add(document, at, level)

    def pop(self, document: bytes) -> tuple[Optional[int], bool]:
        """Takes a document out. Returns its time and level, and whether it was beyond the last load."""
        value = self.ordinary.pop(document) if self.ordinary else None
        if value is not None or not self.beyond:
            return value, False
        return self.beyond.pop(document), True

    def learn(self, took: int, beyond: bool, cost: int) -> None:
        """Learns from a document that is done."""
        if not beyond:
            tenths = max((took + 50) // 100, 1)
            if self.sojourn:  # one that was late must not make the others look pending for hours
                tenths = (9 * self.sojourn + min(tenths, 3 * max(self.sojourn, 90)) + 5) // 10
            self.sojourn = tenths
        if cost > 0:
            self.average = max((9 * self.average + cost + 5) // 10, 1)


class Memory:
    """Answers as the scripts do, with their replies.

    Customers and documents are at most a million together: beyond them, the customers leave
    who sent nothing for longest. The clock shows milliseconds; while it shows less than it
    did, time stands still.
    """

    def __init__(
        self, levels: int, lease: int, overrides: Overrides, clock: Callable[[], int] = steady_milliseconds, degraded: bool = False
    ) -> None:
        self.degraded = degraded  # it answers in the place of Redis
        self._levels = levels
        self._lease = lease
        self._overrides = overrides
        self._clock = clock
        self._lock = threading.RLock()  # a handler of signals may call the store too
        self._latest = 0  # of the clock
        self._customers: OrderedDict[bytes, _Customer] = OrderedDict()  # who sent nothing for longest is first
        self._entries = 0
        self._forgotten: list[OrderedDict[bytes, _Customer]] = []

    def __bool__(self) -> bool:
        """Reports whether anything is known."""
        return bool(self._customers)

    def next(self, customer: bytes, policy: Policy, n: int) -> list[int]:
        interval = whole_milliseconds("the reset interval", policy.reset_interval)
        with self._lock:
            now = self._now()
            known = self._use(customer, now)
            if now > known.reset_at:
                known.count, known.reset_at = 1, now + interval
            elif policy.reset_mode is ResetMode.SINCE_LAST_UPDATE:
                known.reset_at = now + interval
            known.reset_at = min(known.reset_at, now + interval)
            known.count -= n
            count, reset_in = known.count, known.reset_at - now
        level, override = policy.level(count), self._override(customer)
        if not override:
            return [level, count, reset_in]
        return [_bounded(level, override), count, reset_in, level, *override]

    def submit(self, customer: bytes, policy: Policy, documents: Sequence[bytes], costs: Sequence[int]) -> list[int]:
        override, last = self._override(customer), len(policy.loads) + 1
        reply: list[int] = []
        with self._lock:
            now = self._now()
            known = self._use(customer, now)
            before = len(known)
            if now > known.fades_at:
                known.sojourn, known.average = 0, _AVERAGE
            lately, since = known.lately(now), now - known.lease(self._lease)
            known.forget(now - _DAY)
            pending, submits = sum(known.pending(since)), False
            # Documents that are submitted again, as after a lost reply, are decided about
            # as if they were not there.
            again = set()
            for document in documents:
                value = known.pop(document)[0]
                if value is not None and value >= 64 * since:
                    again.add(document)
                    lately = max(lately - 1000, 0)
            ordinary, beyond = known.pending(since)
            for document, cost in zip(documents, costs):
                value, was_beyond = known.pop(document)
                if value is not None:  # it is twice in this call
                    ordinary, beyond = (ordinary, beyond - 1) if was_beyond else (ordinary - 1, beyond)
                else:
                    lately += 1000
                    if document not in again:
                        submits, pending = True, pending + 1
                load = min(min(lately, _MOST_LATELY) * (ordinary + 1) * (cost or known.average), _MOST_LOAD)
                level, ruled = _level(policy, load, beyond + 1), 0
                is_beyond = level >= last
                if override:
                    ruled, level = level, _bounded(level, override)
                known.add(document, now, min(level, 63), is_beyond)
                ordinary, beyond = (ordinary, beyond + 1) if is_beyond else (ordinary + 1, beyond)
                reply += (level, load, pending, ruled)
            if submits:
                known.submitted(lately, now)
            self._entries += len(known) - before
            self._bound(known)
        return [*reply, *override]

    def done(self, customer: bytes, documents: Sequence[bytes], cost: int) -> list[int]:
        reply: list[int] = []
        with self._lock:
            now = self._now()
            known = self._customers.get(customer)
            if known is None:
                return [0] * (2 * len(documents))
            before = len(known)
            for document in documents:
                value, beyond = known.pop(document)
                took = 0 if value is None else now - value // 64
                if value is None or took > _DAY:
                    reply += (0, 0)
                    continue
                if now <= known.fades_at:
                    known.learn(took, beyond, cost)
                reply += (took, value % 64)
            self._entries += len(known) - before
        return reply

    def peek(self, customer: bytes, policy: Policy) -> list[int]:
        with self._lock:
            reply = self._peek(self._customers.get(customer) or _Customer(), policy, self._now())
        override = self._override(customer)
        if not override:
            return [*reply, 0, 0, 0, 0]
        ruled = reply[2]
        reply[2] = _bounded(ruled, override)
        return [*reply, ruled, *override]

    def _peek(self, known: _Customer, policy: Policy, now: int) -> list[int]:
        counted, remembered = now <= known.reset_at, now <= known.fades_at
        count, reset_in = (known.count, known.reset_at - now) if counted else (0, 0)
        lease = known.lease(self._lease) if remembered else self._lease
        ordinary, beyond = known.pending(now - lease)
        if not remembered and ordinary + beyond == 0:
            level = policy.level(count) if counted else 0
            next_level = policy.level(count - 1 if counted else 0)
            return [1 if counted else 0, level, next_level, count, reset_in, *[0] * 8]
        average, sojourn = (known.average, known.sojourn) if remembered else (_AVERAGE, 0)
        lately = known.lately(now)
        load = min(min(lately + 1000, _MOST_LATELY) * (ordinary + 1) * average, _MOST_LOAD)
        level, oldest = 0, now
        sides = [side for side, n in ((known.ordinary, ordinary), (known.beyond, beyond)) if side and n]
        if sides:
            level = max(side.last() for side in sides) % 64
            oldest = min(side.first() for side in sides)
        return [
            2, level, _level(policy, load, beyond + 1), count, reset_in, load, lately, average,
            ordinary + beyond, beyond, now - oldest, 100 * sojourn, lease,
        ]

    def reset(self, customer: bytes) -> None:
        with self._lock:
            known = self._customers.pop(customer, None)
            if known is not None:
                self._entries -= len(known)

    def clear(self) -> None:
        """Forgets all customers. What they took, sweep frees: for a million that takes Python long."""
        with self._lock:
            self._forgotten.append(self._customers)
            self._customers, self._entries = OrderedDict(), 0

    @property
    def swept(self) -> bool:
        """Reports whether nothing is left for sweep."""
        return not self._forgotten

    def sweep(self) -> None:
        """Frees a part of what is forgotten. The background alone calls it."""
        for _ in range(_MOST_SWEPT):
            if not self._forgotten:
                return
            if self._forgotten[0]:
                self._forgotten[0].popitem()
            else:
                del self._forgotten[0]

    def _now(self) -> int:
        self._latest = max(self._latest, self._clock())
        return self._latest

    def _override(self, customer: bytes) -> Sequence[int]:
        override = self._overrides.of(customer)
        if not override:
            return override
        earliest, latest, ends_in = override
        return min(earliest, self._levels), min(latest, self._levels), ends_in

    def _use(self, customer: bytes, now: int) -> _Customer:
        """Returns a customer who sends something, and forgets those about whom nothing matters any more."""
        for _ in range(2):  # more than can come
            first = next(iter(self._customers), None)
            if first is None or not self._customers[first].over(now):
                break
            self._entries -= len(self._customers.pop(first))
        known = self._customers.get(customer)
        if known is None:
            known = self._customers[customer] = _Customer()
            self._entries += 1
        else:
            self._customers.move_to_end(customer)
        known.used_at = now
        self._bound(known)
        return known

    def _bound(self, used: _Customer) -> None:
        """Makes room, at the cost of this customer only if there is no other one."""
        while self._entries > _MOST_ENTRIES:
            name = next(iter(self._customers))
            first = self._customers[name]
            if first is not used:
                self._entries -= len(self._customers.pop(name))
            elif len(used) > 1:
                used.forget_first()
                self._entries -= 1
            else:  # exceptions of signals' handlers have come between
                self._entries = 1


def _level(policy: Policy, load: int, beyond: int) -> int:
    """Returns the level of a load, for a document that would be one of so many beyond the last one."""
    level = policy.level_of_load(load / 1e6)
    if level > len(policy.loads):
        level += min(beyond.bit_length() - 1, policy.turns)
    return level


def _bounded(level: int, override: Sequence[int]) -> int:
    return min(max(level, override[0]), override[1])
