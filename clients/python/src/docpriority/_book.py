"""What is known of a customer, and what a call makes of it: as in the scripts, with the same integers."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Sequence

from ._policy import Policy

DAY = 86_400_000  # milliseconds, as all times here
_HOUR = 3_600_000
_SHORTEST_LEASE = 180_000
_MOST_RECENT = 512_000  # thousandths of a document
_MOST_LOAD = 10**15  # millionths
_AVERAGE = 1000  # thousandths: the cost of a document if its customer's is unknown


class Customer:
    """A customer, or an account, whose documents are those of all its users."""

    def __init__(self) -> None:
        self.count, self.reset_at = 0, -1  # a document later than this resets the count
        self.fades_at = -1  # when the recent documents are half a document
        self.latency = 0  # on average, in tenths of a second; 0: not known
        self.average = _AVERAGE  # of what the documents cost, in thousandths
        self.lost = 0  # documents before the last load that were due before this time are presumed lost
        # While documents are scheduled, a time: the recent documents are those due until then, and later ones count
        # besides. 0: none are.
        self.counted_to = 0
        # The scores of the pending documents are as in Redis: 256 times the time when they are due, plus the level, and
        # below zero for a flood's. With them go their customers, because two users' documents may have one id.
        self.scores: dict[tuple[bytes, bytes], int] = {}  # in order of arrival
        self.sorted: list[tuple[int, tuple[bytes, bytes]]] = []

    @property
    def entries(self) -> int:
        """How many of the memory's entries it takes."""
        return 1 + len(self.scores)

    def over(self, now: int) -> bool:
        """Reports whether none of it matters any more."""
        ends = self.sorted[:1] + self.sorted[-1:]
        faded = now > self.fades_at and now - self.counted_to >= _HOUR  # else later documents count besides
        return now > self.reset_at and faded and all(abs(score) < 256 * (now - DAY) for score, _ in ends)

    def recent(self, now: int) -> int:
        left = self.fades_at - now
        return min(math.floor(1000 * 2 ** (left / DAY - 1) + 0.5), _MOST_RECENT) if left > 0 else 0

    def submitted(self, recent: int, now: int) -> None:
        if now > self.fades_at:  # what was learned has faded, too
            self.latency, self.average = 0, _AVERAGE
        left = math.floor(DAY * (1 + math.log2(recent / 1000)) + 0.5) if recent > 0 else 0
        self.fades_at = now + max(left, 0)

    def index(self, score: int) -> int:
        """Returns how many documents have smaller scores."""
        return bisect_left(self.sorted, (score,))

    def ordinary(self, since: int, until: int) -> range:
        """Returns where the documents before the last load are that are due at a time or later, and no later than
        another: the oldest first."""
        return range(self.index(256 * since), self.index(256 * (until + 1)))

    def flood(self, since: int, until: int) -> range:
        """Returns the same of those beyond the last load, the newest first."""
        return range(self.index(1 - 256 * (until + 1)), self.index(1 - 256 * since))

    def scheduled(self, now: int) -> int:
        """Returns how many documents are due later."""
        return len(self.sorted) - self.index(256 * (now + 1)) + self.index(1 - 256 * (now + 1))

    def add(self, document: tuple[bytes, bytes], score: int) -> None:
        self.scores[document] = score
        insort(self.sorted, (score, document))

    def pop(self, document: tuple[bytes, bytes]) -> int:
        """Takes a document out and returns its score, or 0 if there is none."""
        score = self.scores.pop(document, 0)
        at = bisect_left(self.sorted, (score, document))
        if self.sorted[at : at + 1] == [(score, document)]:  # else an exception of a signal's handler ended add
            del self.sorted[at]
        return score

    def pop_first(self) -> None:
        self.pop(next(iter(self.scores)))

    def forget_before(self, time: int) -> None:
        """Forgets the documents that were due before a time."""
        old = slice(self.index(1 - 256 * time), self.index(256 * time))
        for _, document in self.sorted[old]:
            self.scores.pop(document, None)
        del self.sorted[old]

    def learn(self, took: int, flood: bool, cost: int, now: int) -> None:
        """Learns from a document that is done."""
        if not flood:
            tenths = max((took + 50) // 100, 1)
            if self.latency:  # one late document must not make others look pending for hours
                before = _lease_of(self.latency)
                tenths = (9 * self.latency + min(tenths, 3 * max(self.latency, 90)) + 5) // 10
                if _lease_of(tenths) > before:
                    self.lost = max(self.lost, now - before)  # what was presumed lost does not come back
            self.latency = tenths
        if cost > 0:
            cost = min(cost, 8 * max(self.average, _AVERAGE))  # one outlier must not make later documents expensive
            self.average = max((9 * self.average + cost + 5) // 10, 1)


class Book:
    """What a call knows of a customer, or of an account."""

    def __init__(self, customer: Customer, now: int, longest_lease: int) -> None:
        self.customer, self.now = customer, now
        self.remembers = now <= customer.fades_at
        self.average, self.latency = (customer.average, customer.latency) if self.remembers else (_AVERAGE, 0)
        self.lease = min(_lease_of(self.latency), longest_lease) if self.latency else longest_lease
        self._longest_lease = longest_lease
        self._counted, self._further = customer.recent(now), 0  # recent documents, without those that uncounted returns
        self._changed = customer.fades_at < 0

    def settle(self, delayed: bool) -> None:
        """Adds the documents that have become due to the recent ones, once an hour."""
        customer, to = self.customer, self.customer.counted_to
        if to and self.now - to >= _HOUR:
            self._counted, self._changed = self.recent(self.now), True
            customer.counted_to = self.now if delayed or customer.scheduled(self.now) else 0
        elif delayed and not to:
            customer.counted_to = self.now

    def recent(self, due: int) -> int:
        """Returns how many documents are recent at a time, in thousandths."""
        uncounted = self.uncounted(due) + self._further
        return min(self._counted + 1000 * uncounted, _MOST_RECENT)

    def uncounted(self, due: int) -> int:
        """Returns how many documents that are due no later than a time the recent ones lack."""
        customer = self.customer
        if not customer.counted_to:
            return 0
        since = max(customer.counted_to + 1, due - DAY)
        return len(customer.ordinary(since, self._until(due))) + len(customer.flood(since, self._until(due)))

    def pending(self, due: int) -> tuple[range, range]:
        """Returns where the documents are that count as pending at a time: those before the last load, and a flood's."""
        return self._due(due, self._until(due))

    def _until(self, due: int) -> int:
        """Returns until when documents are due that count beside one. One with a delay counts those that are due soon
        after it, too: else a flood that is submitted latest first would see nothing of itself."""
        return due + min(due - self.now, self.lease)

    def _due(self, now: int, until: int) -> tuple[range, range]:
        """Returns the same of the documents that are due no later than a time, and neither done nor presumed lost at another."""
        since, floods_since = self._since(now)
        return self.customer.ordinary(since, until), self.customer.flood(floods_since, until)

    def _since(self, now: int) -> tuple[int, int]:
        return max(now - self.lease, self.customer.lost), now - self._longest_lease

    def take(self, document: tuple[bytes, bytes], due: int) -> int:
        """Takes a document out, and counts it as recent as of when it is due. Returns its score if it was pending, else
        0."""
        score, share, to = self.customer.pop(document), 1000, self.customer.counted_to
        was = abs(score) // 256
        pending = score != 0 and was >= self._since(self.now)[score < 0]
        if pending and not 0 < to < was:
            share = min(self._counted, 1000)
            self._counted -= share
        self._further = 1 if 0 < to < due else 0
        if not self._further:
            self._counted = min(self._counted + share, _MOST_RECENT)
        self._changed = self._changed or not pending or to > 0
        return score if pending else 0

    def judge(self, policy: Policy, due: int, cost: int) -> tuple[int, int, bool]:
        """Decides about a document that is taken: its load and level, and whether it is beyond the last load."""
        ordinary, flood = self.pending(due)
        load = min(self.recent(due) * (len(ordinary) + 1) * cost, _MOST_LOAD)
        level = policy.level_of_load(load / 1e6, len(flood) + 1)
        return load, level, level > len(policy.loads)

    def newest(self, due: int) -> list[int]:
        """Returns the scores, without their signs, of the newest pending documents that are due no later than a time:
        before the last load, and in a flood."""
        ordinary, flood = self._due(self.now, due)
        return [abs(self.customer.sorted[at][0]) for at in (*ordinary[-1:], *flood[:1])]

    def oldest(self, due: int) -> list[int]:
        """Returns the same of the oldest ones."""
        ordinary, flood = self.pending(due)
        return [abs(self.customer.sorted[at][0]) for at in (*ordinary[:1], *flood[-1:])]

    def put(self, document: tuple[bytes, bytes], due: int, level: int, flood: bool) -> None:
        self.customer.add(document, (256 * due + level) * (-1 if flood else 1))

    def close(self) -> None:
        """Notes what was submitted, and forgets documents of more than a day ago."""
        if self._changed:
            self.customer.submitted(self._counted, self.now)
        self.customer.forget_before(self.now - DAY)

    def end(self, documents: Sequence[tuple[bytes, bytes]], cost: int) -> list[int]:
        """Ends documents, and learns from them. Returns the latency and the level of each, or 0 and 0."""
        customer, reply, uncounted = self.customer, [], 0
        for document in documents:
            score, to = customer.pop(document), customer.counted_to
            due, level = divmod(abs(score), 256)
            if score == 0 or self.now - due > DAY:
                reply += [0, 0]
                continue
            reply += [max(self.now - due, 0), level]
            if due > self.now:  # it did not wait
                continue
            if 0 < to < due:
                uncounted += 1
                if not self.remembers:
                    customer.latency, customer.average, self.remembers = 0, _AVERAGE, True
            if self.remembers:
                customer.learn(self.now - due, score < 0, cost, self.now)
        if uncounted:
            customer.fades_at = self.now  # what was learned is remembered
            customer.submitted(min(self._counted + 1000 * uncounted, _MOST_RECENT), self.now)
        return reply


def judge(policy: Policy, books: Sequence[Book], due: int, cost: int) -> tuple[int, int, bool]:
    """Decides about a document by its customer, and by the account if there is one."""
    load, level, flood = books[0].judge(policy, due, cost)
    for account in books[1:]:
        _, accounts, beyond = account.judge(policy, due, cost)
        if flood or beyond:  # it takes its turn by the account's
            return load, policy.level_of_load(math.inf, len(account.pending(due)[1]) + 1), True
        level = max(level, accounts - 1)
    return load, level, flood


def _lease_of(latency: int) -> int:
    return max(2000 * latency, _SHORTEST_LEASE)
