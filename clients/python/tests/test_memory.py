"""The memory decides as Redis does, within its bounds, also in the stores of docpriority.testing."""

import random
import unittest
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from unittest import mock

import redis

import docpriority
from docpriority import Bounds, Document, Ended, NotCountedError, Policy, Rule, _memory
from docpriority._calls import Call, Calls
from docpriority._cost import Costs
from docpriority._memory import Memory
from docpriority.testing import AsyncMemoryStore, MemoryStore

from .support import HOST, PORT, Awaited, StoreCase, needs_redis, prefix


@needs_redis
class Random(unittest.TestCase):
    """Random calls, whose replies by Redis and by the memory are the same numbers. Redis's scripts read a time that passes
    as told."""

    customers = ("acme", "acme/mary", "acme/jo", "acme/", "acme/}", "/x", "x")
    documents = ("a", "b", "c", "d", "e", "f", "g", ":a", ":/4/marya", "marya")
    times = (0, 0, 1, 5_000, 60_000, 200_000, 3_600_000, 20_000_000, 86_400_000)  # milliseconds

    def test_the_memory_answers_as_redis_does(self) -> None:
        for accounts, in_order in ((False, False), (False, True), (True, False), (True, True)):
            for _ in range(4):
                seed = random.randrange(1 << 32)
                chance = random.Random(seed)
                relative = mock.patch.object(Costs, "relative", lambda *_: chance.choice((0, 0, 1, 1000, 20_000)))
                with self.subTest(seed=seed, accounts=accounts, in_order=in_order), relative:
                    self.run_calls(chance, accounts, in_order)

    def run_calls(self, chance: random.Random, accounts: bool, in_order: bool) -> None:
        policy, lease = Policy(loads=(4, 30, 200), turns=5, in_order=in_order), chance.choice((300_000, 86_400_000))
        calls = Calls(prefix(), policy, None, None, timedelta(milliseconds=lease), True, accounts)
        server, now = redis.Redis(HOST, int(PORT)), 1_900_000_000_000  # later than Redis's own: no set ends before it should
        self.addCleanup(server.close)
        memory = Memory(policy.last, lease, lambda: now, accounts)
        clock = calls.key("test", "clock")

        def both(call: Call[Any]) -> None:
            text = call.script.text.replace("call('TIME')", f"call('LRANGE', '{clock.decode()}', 0, 1)")
            replies = call.answer(memory), server.eval(text, len(call.keys), *call.keys, *call.arguments)
            self.assertEqual(*replies, (call.operation, call.keys, call.arguments))

        for _ in range(250):
            now += chance.choice(self.times)
            server.delete(clock)
            server.rpush(clock, now // 1000, now % 1000 * 1000)
            customer, ids = chance.choice(self.customers), chance.choices(self.documents, k=chance.randint(1, 9))
            what = chance.random()
            if what < 0.5:
                delays = chance.choices((0, 0, 0, 1, 400, 4_000, 90_000, 31_536_000), k=len(ids))  # seconds
                both(calls.submit_n(customer, map(Document, ids, [0] * len(ids), delays)))
            elif what < 0.8:
                both(calls.done_n(customer, ids, timedelta()))
            elif what < 0.83:
                server.delete(*calls.reset(customer).keys)
                memory.reset(customer.encode())
            elif what < 0.86:
                server.set(calls.keys(customer).override, "=3")
                memory.set_override(customer.encode(), 3, 3, float("inf"))
            elif what < 0.9:
                server.delete(calls.keys(customer).override)
                memory.remove_override(customer.encode())
            both(calls.peek(customer))


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


class Threads(unittest.TestCase):
    def test_threads_may_use_it_together(self) -> None:
        store = MemoryStore()

        def work(worker: int) -> list[int]:
            for n in range(200):
                store.submit("acme", f"{worker}-{n}")
                store.done("acme", f"{worker}-{n}")
            return [store.next("acme").count for _ in range(200)]

        with ThreadPoolExecutor(8) as threads:
            counts = [count for counted in threads.map(work, range(8)) for count in counted]
        self.assertEqual(sorted(counts), list(range(-1599, 1)))
        state = store.peek("acme")
        self.assertEqual((state.pending, round(state.recent)), (0, 512))  # rounded, because it fades
        self.assertEqual(len(store._memory), 1)
