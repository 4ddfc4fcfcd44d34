"""Both rules in this process's memory: it answers as the scripts do."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Callable

from ._book import DAY, Book, Customer, judge
from ._keys import account_of
from ._lock import Lock
from ._policy import Policy, ResetMode, whole_milliseconds

_MOST_ENTRIES = 100_000  # customers and documents


def _steady_milliseconds() -> int:
    return time.monotonic_ns() // 1_000_000


class Memory:
    """Answers as the scripts do, with their replies.

    Customers and documents are at most 100,000 together: beyond that, the customers inactive for longest are evicted.
    With accounts, a customer "acme/mary" is a user of the account acme. The clock shows milliseconds; if it goes back,
    time stands still meanwhile.
    """

    def __init__(
        self, levels: int, lease: int, clock: Callable[[], int] = _steady_milliseconds, accounts: bool = False, degraded: bool = False
    ) -> None:
        self.degraded = degraded  # whether it answers instead of Redis
        self._accounts = accounts
        self._levels = levels
        self._lease = lease
        self._clock = clock
        self._lock = Lock()
        self._latest = 0  # time that the clock has shown
        self._customers: OrderedDict[bytes, Customer] = OrderedDict()  # least recently active first
        self._entries = 0
        self._overrides: dict[bytes, tuple[int, int, float]] = {}

    def __len__(self) -> int:
        return self._entries

    def next(self, name: bytes, policy: Policy, n: int) -> list[int]:
        interval = whole_milliseconds("the reset interval", policy.reset_interval)
        with self._lock:
            now = self._now()
            (customer,) = self._use([name], now)
            if now > customer.reset_at:
                customer.count, customer.reset_at = 1, now + interval
            elif policy.reset_mode is ResetMode.SINCE_LAST_UPDATE:
                customer.reset_at = now + interval
            customer.reset_at = min(customer.reset_at, now + interval)
            customer.count -= n
            count, reset_in, override = customer.count, customer.reset_at - now, self._override(name)
        level = policy.level(count)
        return [_bounded(level, override), count, reset_in, level, *override] if override else [level, count, reset_in]

    def submit(self, name: bytes, policy: Policy, documents: Sequence[bytes], costs: Sequence[int], delays: Sequence[int]) -> list[int]:
        reply: list[int] = []
        with self._lock:
            now, override = self._now(), self._override(name)
            customers = self._use(self._names(name), now)
            before = sum(customer.entries for customer in customers)
            books = [Book(customer, now, self._lease) for customer in customers]
            for book in books:
                book.settle(any(delays))
            for id, cost, delay in zip(documents, costs, delays):
                due, document = now + delay, (name, id)
                score = [book.take(document, due) for book in books][0]
                load, level, flood = judge(policy, books, due, cost or books[0].average)
                if policy.in_order:
                    level = min(max([level, *(score % 256 for score in books[0].newest(due))]), self._levels)
                if score:  # a pending document keeps its level
                    level, flood = abs(score) % 256, score < 0
                rule_level, level = level, level if score else _bounded(level, override)
                for book in books:
                    book.put(document, due, level, flood)
                reply += (level, load, sum(map(len, books[0].pending(due))), rule_level)
            for book in books:
                book.close()
            self._entries += sum(customer.entries for customer in customers) - before
            self._make_room(customers)
        return reply

    def done(self, name: bytes, documents: Sequence[bytes], cost: int) -> list[int]:
        reply: list[int] = [0] * (2 * len(documents))
        with self._lock:
            for book_name in reversed(self._names(name)):  # the customer's own reply is the latest
                customer = self._customers.get(book_name) or Customer()
                before = customer.entries
                reply = Book(customer, self._now(), self._lease).end([(name, id) for id in documents], cost)
                self._entries += customer.entries - before
        return reply

    def peek(self, name: bytes, policy: Policy) -> list[int]:
        with self._lock:
            now, override = self._now(), self._override(name)
            customers = [self._customers.get(name) or Customer() for name in self._names(name)]
            counted = now <= customers[0].reset_at
            count, reset_in = (customers[0].count, customers[0].reset_at - now) if counted else (0, 0)
            numbers = self._by_load(customers, policy, now)
        if numbers:
            rule, (level, rule_level, *of_load), of_account = 2, numbers[:10], numbers[10:]
        else:
            rule, level, rule_level = int(counted), policy.level(count) if counted else 0, policy.level(count - 1 if counted else 0)
            of_load, of_account = [0] * 8, [0] * 3
        return [rule, level, _bounded(rule_level, override), count, reset_in, *of_load, rule_level, *(override or (0, 0, 0)), *of_account]

    def _by_load(self, customers: Sequence[Customer], policy: Policy, now: int) -> list[int]:
        """Returns what is known of a customer by the load, or nothing."""
        books = [Book(customer, now, self._lease) for customer in customers]
        user, scheduled = books[0], customers[0].scheduled(now)
        ordinary, flood = user.pending(now)
        pending, pending_flood = len(ordinary) + len(flood), len(flood)
        if scheduled == 0 and not any(book.remembers or book.uncounted(now) or any(map(len, book.pending(now))) for book in books):
            return []
        recent = user.recent(now)
        for book in books:
            book.take((b"", b""), now)  # no document, to judge one that arrives now
        load, level, _ = judge(policy, books, now, user.average)
        newest, oldest = user.newest(now), min(user.oldest(now), default=256 * now) // 256
        if policy.in_order:
            level = min(max([level, *(score % 256 for score in newest)]), self._levels)
        account_load = account_flood = 0
        for account in books[1:]:
            account_load, account_flood = account.judge(policy, now, user.average)[0], len(account.pending(now)[1])
        return [
            max(newest, default=0) % 256, level, load, recent, user.average, pending, pending_flood, now - oldest,
            100 * user.latency, user.lease, scheduled, account_load, account_flood,
        ]  # fmt: skip

    def reset(self, name: bytes) -> list[int]:
        with self._lock:
            if name not in self._customers:
                return [0]
            self._forget(name)
        return [1]

    def forget(self, name: bytes) -> None:
        """Forgets a customer, and the account, which Redis counts together."""
        for each in self._names(name):
            self.reset(each)

    def set_override(self, name: bytes, earliest: int, latest: int, ends_in: float) -> None:
        """Sets an override, as operators do in Redis; ends_in may be infinite."""
        with self._lock:
            self._overrides[name] = (earliest, latest, self._now() + ends_in)

    def remove_override(self, name: bytes) -> None:
        with self._lock:
            self._overrides.pop(name, None)

    def _override(self, name: bytes) -> Sequence[int]:
        """Returns the earliest level, the latest, and the time until the end or -1; empty: there is no override, neither
        of the customer nor of the account."""
        for name in self._names(name):
            earliest, latest, ends_at = self._overrides.get(name, (0, 0, -1))
            if ends_at >= self._now():
                return min(earliest, self._levels), min(latest, self._levels), -1 if ends_at == math.inf else int(ends_at) - self._now()
        return ()

    def _names(self, name: bytes) -> list[bytes]:
        """Returns the name of a customer, and of the account if there is one."""
        account = account_of(name) if self._accounts else b""
        return [name, account] if account else [name]

    def _now(self) -> int:
        self._latest = max(self._latest, DAY + self._clock())  # a day ago was no time below zero
        return self._latest

    def _use(self, names: Sequence[bytes], now: int) -> list[Customer]:
        """Returns active customers, and forgets customers whose numbers no longer matter."""
        for _ in range(1 + len(names)):  # more than can be added
            first = next(iter(self._customers), None)
            if first is None or not self._customers[first].over(now):
                break
            self._forget(first)
        for name in names:
            if name not in self._customers:
                self._customers[name] = Customer()
                self._entries += 1
            self._customers.move_to_end(name)
        customers = [self._customers[name] for name in names]
        self._make_room(customers)
        return customers

    def _make_room(self, active: Sequence[Customer]) -> None:
        """Evicts inactive customers, and the active ones' documents only if there is no other customer."""
        while self._entries > _MOST_ENTRIES:
            name, customer = next(iter(self._customers.items()))
            if customer in active:
                max(active, key=lambda customer: customer.entries).pop_first()
                self._entries -= 1
            else:
                self._forget(name)

    def _forget(self, name: bytes) -> None:
        self._entries -= self._customers.pop(name).entries


def _bounded(level: int, override: Sequence[int]) -> int:
    return min(max(level, override[0]), override[1]) if override else level
