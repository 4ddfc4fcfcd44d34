"""Both rules in this process's memory: what the scripts do, with the same integers."""

from __future__ import annotations

import math
import threading
import time
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Sequence
from typing import Callable

from ._policy import Policy, ResetMode, whole_milliseconds

_DAY = 86_400_000  # milliseconds, as all times here
_SHORTEST_LEASE = 180_000
_MOST_RECENT = 512_000  # thousandths of a document
_MOST_LOAD = 10**15  # millionths
_AVERAGE = 1000  # thousandths: the cost of a document if its customer's is unknown
_MOST_ENTRIES = 100_000  # customers and documents


def _steady_milliseconds() -> int:
    return time.monotonic_ns() // 1_000_000


class _Customer:
    def __init__(self) -> None:
        self.used_at = 0
        self.count, self.reset_at = 0, -1  # a document later than this resets the count
        self.fades_at = -1  # when the recent documents are half a document
        self.latency = 0  # on average, in tenths of a second; 0: not known
        self.average = _AVERAGE  # of what the documents cost, in thousandths
        # The pending documents' scores are as in Redis: 256 times the time, plus the level, and below zero beyond the
        # last load.
        self.scores: dict[bytes, int] = {}  # in order of arrival
        self.sorted: list[int] = []

    def __len__(self) -> int:
        """The entries that it takes."""
        return 1 + len(self.scores)

    def over(self, now: int) -> bool:
        """Reports whether none of it matters any more."""
        return now > self.reset_at and now > self.fades_at and now - self.used_at > _DAY

    def recent(self, now: int) -> int:
        left = self.fades_at - now
        return min(math.floor(1000 * 2 ** (left / _DAY - 1) + 0.5), _MOST_RECENT) if left > 0 else 0

    def submitted(self, recent: int, now: int) -> None:
        self.fades_at = now + math.floor(_DAY * (1 + math.log2(recent / 1000)) + 0.5)

    def lease(self, longest: int) -> int:
        return min(max(2000 * self.latency, _SHORTEST_LEASE), longest) if self.latency else longest

    def pending(self, since: int) -> tuple[int, int]:
        """Returns how many documents are pending from a score on, before the last load and beyond it."""
        return len(self.sorted) - bisect_left(self.sorted, since), bisect_right(self.sorted, -since)

    def add(self, document: bytes, score: int) -> None:
        self.scores[document] = score
        insort(self.sorted, score)

    def pop(self, document: bytes) -> int:
        """Takes a document out. Returns its score; 0: it is not there."""
        score = self.scores.pop(document, 0)
        if score:
            del self.sorted[bisect_left(self.sorted, score)]
        return score

    def pop_first(self) -> None:
        self.pop(next(iter(self.scores)))

    def learn(self, took: int, beyond: bool, cost: int) -> None:
        """Learns from a document that is done."""
        if not beyond:
            tenths = max((took + 50) // 100, 1)
            if self.latency:  # one late document must not make others look pending for hours
                tenths = (9 * self.latency + min(tenths, 3 * max(self.latency, 90)) + 5) // 10
            self.latency = tenths
        if cost > 0:
            cost = min(cost, 8 * max(self.average, _AVERAGE))  # one outlier must not make later documents expensive
            self.average = max((9 * self.average + cost + 5) // 10, 1)


class Memory:
    """Answers as the scripts do, with their replies.

    Customers and documents are at most 100,000 together: beyond that, the customers inactive for longest are
    evicted. The clock shows milliseconds; if it goes back, time stands still meanwhile.
    """

    def __init__(self, levels: int, lease: int, clock: Callable[[], int] = _steady_milliseconds) -> None:
        self.degraded = False  # it answers instead of Redis
        self._levels = levels
        self._lease = lease
        self._clock = clock
        self._lock = threading.RLock()  # a signal handler may call the store too
        self._latest = 0  # of the clock
        self._customers: OrderedDict[bytes, _Customer] = OrderedDict()  # least recently active first
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
        reply: list[int] = []
        with self._lock:
            now, override = self._now(), self._override(customer)
            known = self._use(customer, now)
            before = len(known)
            if now > known.fades_at:
                known.latency, known.average = 0, _AVERAGE
            recent, since = known.recent(now), _score(now - known.lease(self._lease))
            while known.scores and abs(next(iter(known.scores.values()))) < _score(now - _DAY):
                known.pop_first()
            pending, new = sum(known.pending(since)), False
            # Documents that are already pending, as after a lost reply, are removed from the numbers and then treated
            # like new ones.
            again: dict[bytes, int] = {}  # their share of the recent documents
            for document in documents:
                if abs(known.pop(document)) >= since:
                    again[document] = min(recent, 1000)
                    recent -= again[document]
            ordinary, beyond = known.pending(since)
            for document, cost in zip(documents, costs):
                score = known.pop(document)
                if score:  # it is twice in this call
                    ordinary, beyond = (ordinary - 1, beyond) if score > 0 else (ordinary, beyond - 1)
                else:
                    recent = min(recent + again.get(document, 1000), _MOST_RECENT)
                    if document not in again:
                        pending, new = pending + 1, True
                load = min(recent * (ordinary + 1) * (cost or known.average), _MOST_LOAD)
                rule_level = policy._level_of(load, beyond + 1)
                level = _bounded(rule_level, override)
                if rule_level > len(policy.loads):
                    beyond, sign = beyond + 1, -1
                else:
                    ordinary, sign = ordinary + 1, 1
                known.add(document, sign * (256 * now + level))
                reply += (level, load, pending, rule_level)
            if new:
                known.submitted(recent, now)
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
                score = known.pop(document)
                took = now - abs(score) // 256
                if score == 0 or took > _DAY:
                    reply += (0, 0)
                else:
                    known.learn(took, score < 0, cost)
                    reply += (took, abs(score) % 256)
            self._entries += len(known) - before
        return reply

    def peek(self, customer: bytes, policy: Policy) -> list[int]:
        with self._lock:
            reply = self._peek(self._customers.get(customer) or _Customer(), policy, self._now())
            override = self._override(customer)
        rule_level = reply[2]
        reply[2] = _bounded(rule_level, override)
        return [*reply, rule_level, *(override or (0, 0, 0))]

    def _peek(self, known: _Customer, policy: Policy, now: int) -> list[int]:
        counted, remembered = now <= known.reset_at, now <= known.fades_at
        count, reset_in = (known.count, known.reset_at - now) if counted else (0, 0)
        average, latency, lease = (known.average, known.latency, known.lease(self._lease)) if remembered else (_AVERAGE, 0, self._lease)
        ordinary, beyond = known.pending(_score(now - lease))
        if not remembered and ordinary + beyond == 0:
            level, next_level = (policy.level(count), policy.level(count - 1)) if counted else (0, policy.level(0))
            return [int(counted), level, next_level, count, reset_in, *[0] * 8]
        recent, scores = known.recent(now), known.sorted
        load = min(min(recent + 1000, _MOST_RECENT) * (ordinary + 1) * average, _MOST_LOAD)
        ends = [*((scores[-1], scores[-ordinary]) if ordinary else ()), *((-scores[0], -scores[beyond - 1]) if beyond else ())]
        level, oldest = (max(ends) % 256, min(ends) // 256) if ends else (0, now)
        return [
            2, level, policy._level_of(load, beyond + 1), count, reset_in, load, recent, average,
            ordinary + beyond, beyond, now - oldest, 100 * latency, lease,
        ]  # fmt: skip

    def reset(self, customer: bytes) -> list[int]:
        with self._lock:
            known = self._customers.pop(customer, ())
            self._entries -= len(known)
        return [1 if known else 0]

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
        """Returns an active customer, and forgets customers whose numbers no longer matter."""
        for _ in range(2):  # more than can be added
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
        """Makes room, evicting this customer's documents only if there is no other customer."""
        while self._entries > _MOST_ENTRIES:
            name = next(iter(self._customers))
            first = self._customers[name]
            if first is not used:
                self._entries -= len(self._customers.pop(name))
            else:
                used.pop_first()
                self._entries -= 1


def _score(time: int) -> int:
    """Returns the smallest score of a document submitted at a time."""
    return max(256 * time, 1)


def _bounded(level: int, override: Sequence[int]) -> int:
    return min(max(level, override[0]), override[1]) if override else level
