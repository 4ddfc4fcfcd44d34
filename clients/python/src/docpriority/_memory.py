"""Both rules in this process's memory: what the scripts do, with the same whole numbers."""

from __future__ import annotations

import math
import threading
import time
from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Sequence
from typing import Callable, Optional

from ._policy import Policy, ResetMode, whole_milliseconds

_DAY = 86_400_000  # milliseconds, as all times here
_SHORTEST_LEASE = 180_000
_MOST_LATELY = 512_000  # thousandths of a document
_MOST_LOAD = 10**15  # millionths
_AVERAGE = 1000  # thousandths: what a document costs whose customer's cost is not known
_MOST_ENTRIES = 100_000  # customers and documents


def _steady_milliseconds() -> int:
    return time.monotonic_ns() // 1_000_000


class _Documents:
    """Pending documents in the order in which they came. The score of each is 64 times its time, and its level."""

    def __init__(self) -> None:
        self._scores: dict[bytes, int] = {}
        self._sorted: list[int] = []

    def __len__(self) -> int:
        return len(self._scores)

    def add(self, document: bytes, score: int) -> None:
        self._scores[document] = score
        insort(self._sorted, score)

    def pop(self, document: bytes) -> Optional[int]:
        score = self._scores.pop(document, None)
        if score is not None:
            del self._sorted[bisect_left(self._sorted, score)]
        return score

    def since(self, time: int) -> Sequence[int]:
        """Returns the oldest score and the newest from a time on, and how many there are; empty: there is none."""
        at = bisect_left(self._sorted, 64 * time)
        return (self._sorted[at], self._sorted[-1], len(self._sorted) - at) if at < len(self._sorted) else ()

    def number_since(self, time: int) -> int:
        return len(self._sorted) - bisect_left(self._sorted, 64 * time)

    def forget(self, time: int) -> None:
        """Forgets documents from before a time."""
        while self._sorted and self._sorted[0] < 64 * time:
            self.forget_first()

    def forget_first(self) -> None:
        self.pop(next(iter(self._scores)))


class _Customer:
    def __init__(self) -> None:
        self.used_at = 0
        self.count, self.reset_at = 0, -1  # a document later than this resets the count
        self.fades_at = -1  # when what was submitted lately is half a document
        self.sojourn = 0  # on average, in tenths of a second; 0: not known
        self.average = _AVERAGE  # of what the documents cost, in thousandths
        self.ordinary = _Documents()
        self.beyond = _Documents()  # the last load

    def __len__(self) -> int:
        """The entries that it takes."""
        return 1 + len(self.ordinary) + len(self.beyond)

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
        return self.ordinary.number_since(since), self.beyond.number_since(since)

    def pop(self, document: bytes) -> tuple[Optional[int], bool]:
        """Takes a document out. Returns its score, and whether it was beyond the last load."""
        score = self.ordinary.pop(document)
        return (score, False) if score is not None else (self.beyond.pop(document), True)

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

    Customers and documents are at most 100,000 together: beyond them, the customers leave who sent nothing for
    longest. The clock shows milliseconds; while it shows less than it did, time stands still.
    """

    def __init__(self, levels: int, lease: int, clock: Callable[[], int] = _steady_milliseconds) -> None:
        self.degraded = False  # it answers in the place of Redis
        self._levels = levels
        self._lease = lease
        self._clock = clock
        self._lock = threading.RLock()  # a handler of signals may call the store too
        self._latest = 0  # of the clock
        self._customers: OrderedDict[bytes, _Customer] = OrderedDict()  # who sent nothing for longest is first
        self._entries = 0
        self._overrides: dict[bytes, tuple[int, int, float]] = {}

    def __len__(self) -> int:
        return self._entries

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
            count, reset_in, override = known.count, known.reset_at - now, self._override(customer)
        level = policy.level(count)
        return [_bounded(level, override), count, reset_in, level, *override] if override else [level, count, reset_in]

    def submit(self, customer: bytes, policy: Policy, documents: Sequence[bytes], costs: Sequence[int]) -> list[int]:
        last = len(policy.loads) + 1
        reply: list[int] = []
        with self._lock:
            now, override = self._now(), self._override(customer)
            known = self._use(customer, now)
            before = len(known)
            if now > known.fades_at:
                known.sojourn, known.average = 0, _AVERAGE
            lately, since = known.lately(now), now - known.lease(self._lease)
            known.ordinary.forget(now - _DAY)
            known.beyond.forget(now - _DAY)
            pending, submits = sum(known.pending(since)), False
            # Documents that are submitted again, as after a lost reply, are decided about as if they were not there.
            again = set()
            for document in documents:
                score = known.pop(document)[0]
                if score is not None and score >= 64 * since:
                    again.add(document)
                    lately = max(lately - 1000, 0)
            ordinary, beyond = known.pending(since)
            for document, cost in zip(documents, costs):
                score, was_beyond = known.pop(document)
                if score is not None:  # it is twice in this call
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
                (known.beyond if is_beyond else known.ordinary).add(document, 64 * now + min(level, 63))
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
                score, beyond = known.pop(document)
                took = 0 if score is None else now - score // 64
                if score is None or took > _DAY:
                    reply += (0, 0)
                    continue
                if now <= known.fades_at:
                    known.learn(took, beyond, cost)
                reply += (took, score % 64)
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
        sides = [side for side in (known.ordinary.since(now - lease), known.beyond.since(now - lease)) if side]
        if sides:
            level, oldest = max(side[1] for side in sides) % 64, min(side[0] for side in sides) // 64
        return [
            2, level, _level(policy, load, beyond + 1), count, reset_in, load, lately, average,
            ordinary + beyond, beyond, now - oldest, 100 * sojourn, lease,
        ]  # fmt: skip

    def reset(self, customer: bytes) -> None:
        with self._lock:
            self._entries -= len(self._customers.pop(customer, ()))

    def set_override(self, customer: bytes, earliest: int, latest: int, ends_in: float) -> None:
        """Sets an override, as operators do in Redis; ends_in may be infinite."""
        with self._lock:
            self._overrides[customer] = (earliest, latest, self._now() + ends_in)

    def _override(self, customer: bytes) -> Sequence[int]:
        """Returns the earliest level, the latest, and the time until the end or -1; empty: there is no override."""
        earliest, latest, ends_at = self._overrides.get(customer, (0, 0, -1))
        if ends_at < self._now():
            return ()
        return min(earliest, self._levels), min(latest, self._levels), -1 if ends_at == math.inf else int(ends_at) - self._now()

    def _now(self) -> int:
        self._latest = max(self._latest, self._clock())
        return self._latest

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
            else:
                (used.ordinary or used.beyond).forget_first()
                self._entries -= 1


def _level(policy: Policy, load: int, beyond: int) -> int:
    """Returns the level of a load, for a document that would be one of so many beyond the last one."""
    level = policy.level_of_load(load / 1e6)
    if level > len(policy.loads):
        level += min(beyond.bit_length() - 1, policy.turns)
    return level


def _bounded(level: int, override: Sequence[int]) -> int:
    return min(max(level, override[0]), override[1])
