"""The memory stays within its bounds, and the stores of docpriority.testing are stores."""

import unittest
from datetime import timedelta
from typing import Any
from unittest import mock

import docpriority
from docpriority import Bounds, Document, Ended, NotCountedError, Policy, Rule, _memory
from docpriority.testing import AsyncMemoryStore, MemoryStore

from .support import Awaited, StoreCase


class Evictions(unittest.TestCase):
    def setUp(self) -> None:
        bounded = mock.patch.object(_memory, "_MOST_ENTRIES", 20)
        bounded.start()
        self.addCleanup(bounded.stop)
        self.store = MemoryStore()

    def test_customers_leave_oldest_first(self) -> None:
        for n in range(40):
            self.store.submit(f"{n}", "document")
            self.store.next("regular")
        left = [n for n in range(40) if self.store.peek(f"{n}").rule is Rule.BY_LOAD]
        self.assertEqual((left[-1], len(left)), (39, 9))  # each takes two entries, and the regular one takes one
        self.assertEqual(self.store.peek("regular").count, -39)

    def test_one_customer_alone_keeps_the_latest_documents(self) -> None:
        for store, customer, left in ((self.store, "acme", 19), (MemoryStore(accounts=True), "acme/mary", 9)):  # the account has them, too
            for n in range(100):
                store.submit(customer, f"{n}")
            self.assertEqual((store.peek(customer).pending, store.peek("acme").pending, len(store._memory)), (left, left, 20))
            self.assertIsNotNone(store.done(customer, "99"))
            self.assertIsNone(store.done(customer, "0"))

    def test_what_is_over_leaves(self) -> None:
        for n in range(8):
            self.store.submit(f"{n}", "document")
        self.store.advance(timedelta(days=3))
        for _ in range(9):
            self.store.next("another")
        self.assertEqual(len(self.store._memory), 1)


class Stores(StoreCase):
    def open_memory(self, **options: Any) -> Any:
        return Awaited(self.loop, lambda: AsyncMemoryStore(**options)) if self.asynchronous else MemoryStore(**options)

    def test_it_is_a_store(self) -> None:
        self.assertTrue(issubclass(MemoryStore, docpriority.Store))
        self.assertTrue(issubclass(AsyncMemoryStore, docpriority.AsyncStore))
        store = self.open_memory(policy=Policy(turns=6), clock=lambda: 0.0)
        self.assertEqual((store.last, store.degraded), (12, False))
        self.assertEqual([d.level for d in store.submit_n("acme", ["z", Document("a", 1), Document(b"b", 2)])], [1, 1, 2])
        self.assertEqual(store.done_n("acme", [b"a", "b", "c"]), [Ended(b"a", timedelta(), 1), Ended("b", timedelta(), 2)])
        self.assertIsNone(store.done("acme", "a"))
        self.assertEqual([d.count for d in store.next_n("é", 3)], [0, -1, -2])
        self.assertEqual(store.next("é".encode()).count, -3)
        store.reset("é")
        self.assertEqual(store.peek("é").rule, Rule.UNKNOWN)
        store.close()
        self.assertRaises(NotCountedError, store.next, "acme")

    def test_overrides_hold_until_they_end(self) -> None:
        store = self.open_memory(clock=lambda: 0.0)
        store.set_override("acme", Bounds(3, 255), timedelta(minutes=1))
        decision = store.submit("acme", "a")
        self.assertEqual((decision.level, decision.rule_level), (3, 1))
        self.assertEqual(store.peek("acme").bounds, Bounds(3, 9))
        store.advance(timedelta(minutes=2))
        self.assertEqual(store.next("acme").level, 1)
        self.assertRaises(ValueError, store.set_override, "acme", Bounds(9, 9), timedelta(seconds=-1))
        store.set_override("acme", Bounds(2, 2))
        self.assertEqual((store.next("acme").level, store.peek("acme").rule_level), (2, 1))
        store.set_override("acme", None)
        self.assertEqual((store.next("acme").level, store.peek("acme").rule_level), (1, 1))
