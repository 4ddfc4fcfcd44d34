"""Both rules in this process's memory: what the scripts do, with the same integers."""

from __future__ import annotations

import math
import time
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Sequence
from typing import Callable

from ._lock import Lock
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
        # The pending documents' scores are as in Redis: 256 times the time, plus the level, and below zero for a flood's.
        self.scores: dict[bytes, int] = {}  # in order of arrival
        self.sorted: list[int] = []

    @property
    def entries(self) -> int:
        """How many of the memory's entries it takes."""
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
        """Returns how many documents are pending from a score on: those before the last load, and a flood's beyond it."""
        return len(self.sorted) - bisect_left(self.sorted, since), bisect_right(self.sorted, -since)

    def add(self, document: bytes, score: int) -> None:
        self.scores[document] = score
        insort(self.sorted, score)

    def pop(self, document: bytes) -> int:
        """Takes a document out and returns its score, or 0 if it is not pending."""
        score = self.scores.pop(document, 0)
        at = bisect_left(self.sorted, score)
        if score and self.sorted[at : at + 1] == [score]:  # else an exception of a signal's handler ended add
            del self.sorted[at]
        return score

    def pop_first(self) -> None:
        self.pop(next(iter(self.scores)))

    def learn(self, took: int, flood: bool, cost: int) -> None:
        """Learns from a document that is done."""
        if not flood:
            tenths = max((took + 50) // 100, 1)
            if self.latency:  # one late document must not make others look pending for hours
                tenths = (9 * self.latency + min(tenths, 3 * max(self.latency, 90)) + 5) // 10
            self.latency = tenths
        if cost > 0:
            cost = min(cost, 8 * max(self.average, _AVERAGE))  # one outlier must not make later documents expensive
            self.average = max((9 * self.average + cost + 5) // 10, 1)


class Memory:
    """Answers as the scripts do, with their replies.

    Customers and documents are at most 100,000 together: beyond that, the customers inactive for longest are evicted.
    The clock shows milliseconds; if it goes back, time stands still meanwhile.
    """

    def __init__(self, levels: int, lease: int, clock: Callable[[], int] = _steady_milliseconds, degraded: bool = False) -> None:
        self.degraded = degraded  # whether it answers instead of Redis
        self._levels = levels
        self._lease = lease
        self._clock = clock
        self._lock = Lock()
        self._latest = 0  # time that the clock has shown
        self._customers: OrderedDict[bytes, _Customer] = OrderedDict()  # least recently active first
        self._entries = 0
        self._overrides: dict[bytes, tuple[int, int, float]] = {}

    def __len__(self) -> int:
        return self._entries

    def next(self, name: bytes, policy: Policy, n: int) -> list[int]:
        interval = whole_milliseconds("the reset interval", policy.reset_interval)
        with self._lock:
            now = self._now()
            customer = self._use(name, now)
            if now > customer.reset_at:
                customer.count, customer.reset_at = 1, now + interval
            elif policy.reset_mode is ResetMode.SINCE_LAST_UPDATE:
                customer.reset_at = now + interval
            customer.reset_at = min(customer.reset_at, now + interval)
            customer.count -= n
            count, reset_in, override = customer.count, customer.reset_at - now, self._override(name)
        level = policy.level(count)
        return [_bounded(level, override), count, reset_in, level, *override] if override else [level, count, reset_in]

    def submit(self, name: bytes, policy: Policy, documents: Sequence[bytes], costs: Sequence[int]) -> list[int]:
        reply: list[int] = []
        with self._lock:
            now, override = self._now(), self._override(name)
            customer = self._use(name, now)
            before = customer.entries
            if now > customer.fades_at:
                customer.latency, customer.average = 0, _AVERAGE
            recent, since = customer.recent(now), _score(now - customer.lease(self._lease))
            while customer.scores and abs(next(iter(customer.scores.values()))) < _score(now - _DAY):
                customer.pop_first()
            pending, new = sum(customer.pending(since)), False
            # Documents that are already pending, as after a lost reply, are removed from the numbers and then treated
            # like new ones.
            again: dict[bytes, int] = {}  # their share of the recent documents
            for document in documents:
                if abs(customer.pop(document)) >= since:
                    again[document] = min(recent, 1000)
                    recent -= again[document]
            ordinary, flood = customer.pending(since)
            for document, cost in zip(documents, costs):
                score = customer.pop(document)
                if score:  # the document is twice in this call
                    ordinary, flood = (ordinary - 1, flood) if score > 0 else (ordinary, flood - 1)
                else:
                    recent = min(recent + again.get(document, 1000), _MOST_RECENT)
                    if document not in again:
                        pending, new = pending + 1, True
                load = min(recent * (ordinary + 1) * (cost or customer.average), _MOST_LOAD)
                rule_level = policy.level_of_load(load / 1e6, flood + 1)
                level = _bounded(rule_level, override)
                if rule_level > len(policy.loads):
                    flood, sign = flood + 1, -1
                else:
                    ordinary, sign = ordinary + 1, 1
                customer.add(document, sign * (256 * now + level))
                reply += (level, load, pending, rule_level)
            if new:
                customer.submitted(recent, now)
            self._entries += customer.entries - before
            self._make_room(customer)
        return [*reply, *override]

    def done(self, name: bytes, documents: Sequence[bytes], cost: int) -> list[int]:
        reply: list[int] = []
        with self._lock:
            now = self._now()
            customer = self._customers.get(name)
            if customer is None:
                return [0] * (2 * len(documents))
            before = customer.entries
            for document in documents:
                score = customer.pop(document)
                took = now - abs(score) // 256
                if score == 0 or took > _DAY:
                    reply += (0, 0)
                else:
                    customer.learn(took, score < 0, cost)
                    reply += (took, abs(score) % 256)
            self._entries += customer.entries - before
        return reply

    def peek(self, name: bytes, policy: Policy) -> list[int]:
        with self._lock:
            reply = self._peek(self._customers.get(name) or _Customer(), policy, self._now())
            override = self._override(name)
        rule_level = reply[2]
        reply[2] = _bounded(rule_level, override)
        return [*reply, rule_level, *(override or (0, 0, 0))]

    def _peek(self, customer: _Customer, policy: Policy, now: int) -> list[int]:
        counted, remembered = now <= customer.reset_at, now <= customer.fades_at
        count, reset_in = (customer.count, customer.reset_at - now) if counted else (0, 0)
        average, latency, lease = (customer.average, customer.latency, customer.lease(self._lease)) if remembered else (_AVERAGE, 0, self._lease)
        ordinary, flood = customer.pending(_score(now - lease))
        if not remembered and ordinary + flood == 0:
            level, next_level = (policy.level(count), policy.level(count - 1)) if counted else (0, policy.level(0))
            return [int(counted), level, next_level, count, reset_in, *[0] * 8]
        recent, scores = customer.recent(now), customer.sorted
        load = min(min(recent + 1000, _MOST_RECENT) * (ordinary + 1) * average, _MOST_LOAD)
        # The latest document and the oldest, of a flood or not.
        ends = [*((scores[-1], scores[-ordinary]) if ordinary else ()), *((-scores[0], -scores[flood - 1]) if flood else ())]
        level, oldest = (max(ends) % 256, min(ends) // 256) if ends else (0, now)
        return [
            2, level, policy.level_of_load(load / 1e6, flood + 1), count, reset_in, load, recent, average,
            ordinary + flood, flood, now - oldest, 100 * latency, lease,
        ]  # fmt: skip

    def reset(self, name: bytes) -> list[int]:
        with self._lock:
            if name not in self._customers:
                return [0]
            self._forget(name)
        return [1]

    def set_override(self, name: bytes, earliest: int, latest: int, ends_in: float) -> None:
        """Sets an override, as operators do in Redis; ends_in may be infinite."""
        with self._lock:
            self._overrides[name] = (earliest, latest, self._now() + ends_in)

    def remove_override(self, name: bytes) -> None:
        with self._lock:
            self._overrides.pop(name, None)

    def _override(self, name: bytes) -> Sequence[int]:
        """Returns the earliest level, the latest, and the time until the end or -1; empty: there is no override."""
        earliest, latest, ends_at = self._overrides.get(name, (0, 0, -1))
        if ends_at < self._now():
            return ()
        return min(earliest, self._levels), min(latest, self._levels), -1 if ends_at == math.inf else int(ends_at) - self._now()

    def _now(self) -> int:
        self._latest = max(self._latest, self._clock())
        return self._latest

    def _use(self, name: bytes, now: int) -> _Customer:
        """Returns an active customer, and forgets customers whose numbers no longer matter."""
        for _ in range(2):  # more than can be added
            first = next(iter(self._customers), None)
            if first is None or not self._customers[first].over(now):
                break
            self._forget(first)
        customer = self._customers.get(name)
        if customer is None:
            customer = self._customers[name] = _Customer()
            self._entries += 1
        self._customers.move_to_end(name)
        customer.used_at = now
        self._make_room(customer)
        return customer

    def _make_room(self, active: _Customer) -> None:
        """Evicts inactive customers, and the active one's documents only if there is no other customer."""
        while self._entries > _MOST_ENTRIES:
            name, customer = next(iter(self._customers.items()))
            if customer is active:
                customer.pop_first()
                self._entries -= 1
            else:
                self._forget(name)

    def _forget(self, name: bytes) -> None:
        self._entries -= self._customers.pop(name).entries


def _score(time: int) -> int:
    """Returns the smallest score of a document submitted at a time."""
    return max(256 * time, 1)


def _bounded(level: int, override: Sequence[int]) -> int:
    return min(max(level, override[0]), override[1]) if override else level
