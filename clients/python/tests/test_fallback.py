"""Outages, where a store has a fallback."""

import _thread
import asyncio
import logging
import multiprocessing
import os
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import Any
from unittest import mock

import redis
import redis.asyncio

import docpriority
from docpriority import CorruptCountError, NotCountedError, Override, Policy, PriorityError, Rule, _dones, _fallback, _member, _memory
from docpriority._calls import Calls
from docpriority._dones import Dones, Held
from docpriority._fallback import Circuit
from docpriority._memory import Overrides

from .support import HOST, LONG, PORT, SHORT, Proxy, StoreCase, both_kinds, needs_redis, prefix
from .test_fleet import Operator, eventually

logging.getLogger("docpriority").addHandler(logging.NullHandler())


class OutageCase(StoreCase):
    """A test of a store whose Redis can go away."""

    def setUp(self) -> None:
        super().setUp()
        probes = mock.patch.object(_fallback, "PROBE_SECONDS", 0.01)
        probes.start()
        self.addCleanup(probes.stop)
        self.server = self.redis()
        self.between = self.proxy()

    def fallback(self, store: Any) -> Any:
        return getattr(store, "store", store)._fallback.here()

    def open_both(self, **options: Any) -> Any:
        return self.open(self.between.url, **{"timeout": SHORT, "fallback": True, **options})

    def away(self) -> None:
        self.between.fault = "away"
        self.between.close_connections()

    def goes(self, fault: str) -> None:
        (self.away if fault == "away" else self.between.hold)()

    def back(self, store: Any) -> None:
        """Has Redis back, and waits until the store owes it nothing and asks it again."""
        self.between.release()
        eventually(lambda: (store.degraded, len(self.fallback(store).dones)), lambda left: left == (False, 0))

    def books(self, store: Any, *customers: str) -> dict[str, int]:
        """Returns how many documents are pending in Redis."""
        return {customer: self.server.zcard(store.pending_key(customer)) for customer in customers}

    def open_circuit(self, store: Any) -> None:
        eventually(lambda: (store.peek("nobody"), self.fallback(store)._circuit.is_open)[1], bool)


@needs_redis
class Outages(OutageCase):
    def test_an_outage_under_many_callers(self) -> None:
        store = self.open_both()
        small = [f"small-{n}" for n in range(16)]
        for customer in ["flood", *small]:
            eventually(lambda: store.submit(customer, "before").degraded, lambda degraded: not degraded)
        for fault in ("away", "hold"):
            self.goes(fault)

            def work(caller: int) -> tuple[list[Any], Any]:
                flood = [store.submit("flood", f"{fault}-{caller}-{n}") for n in range(25)]
                one = store.submit(small[caller], f"{fault}-document")
                store.done(small[caller], "before")
                store.done(small[caller], f"{fault}-document")
                store.done_n("flood", [f"{fault}-{caller}-{n}" for n in range(20)], timedelta(seconds=caller))
                return flood, one

            with ThreadPoolExecutor(16) as callers:
                for flood, one in callers.map(work, range(16)):
                    self.assertTrue(one.degraded)
                    self.assertLess(one.level, flood[-1].level)
            self.assertTrue(store.degraded)
            self.back(store)
            self.assertFalse(self.fallback(store).memory)  # what it counted is forgotten
            with ThreadPoolExecutor(16) as callers:
                for caller in range(16):
                    callers.submit(store.done_n, "flood", [f"{fault}-{caller}-{n}" for n in range(20, 25)])
        store.done("flood", "before")
        self.back(store)
        self.assertEqual(self.books(store, "flood", *small), {customer: 0 for customer in ["flood", *small]})

    def test_a_call_that_fails_before_the_circuit_opens_is_answered_too(self) -> None:
        store = self.open_both(timeout=0.05)
        self.away()
        first = [store.next("acme"), *store.next_n("acme", 3), store.submit("acme", "a"), *store.submit_n("acme", ["b", "c"])]
        self.assertEqual([d.degraded for d in first], [True] * 7)
        self.assertEqual([d.count for d in first[:4]], [0, -1, -2, -3])
        self.assertEqual([d.pending for d in first[4:]], [1, 2, 3])
        state = store.peek("acme")
        self.assertEqual((state.degraded, state.rule, state.pending), (True, Rule.BY_LOAD, 3))
        ended = store.done("acme", "a")
        self.assertEqual((ended.document, ended.level), ("a", 1))
        self.assertEqual([of.document for of in store.done_n("acme", [b"b", "c", "none"])], [b"b", "c"])
        self.open_circuit(store)
        self.assertTrue(store.submit("acme", "d").degraded)
        self.back(store)

    def test_a_done_is_paid_when_redis_is_back(self) -> None:
        store = self.open_both()
        store.submit_n("acme", ["a", "b", "c"])
        self.assertEqual(self.books(store, "acme"), {"acme": 3})
        self.away()
        store.done("acme", "a")
        store.done("acme", "b", timedelta(seconds=3))
        self.assertEqual(self.books(store, "acme"), {"acme": 3})
        self.back(store)
        self.assertEqual(self.books(store, "acme"), {"acme": 1})

    def test_a_submit_cancels_the_done_that_is_owed(self) -> None:
        store = self.open_both()
        store.submit_n("acme", ["a", "b"])
        self.away()
        store.done_n("acme", ["a", "b"])
        self.assertTrue(store.submit("acme", "a").degraded)
        self.back(store)
        self.assertEqual(self.server.zrange(store.pending_key("acme"), 0, -1), [b"a"])

    def test_what_memory_knew_is_freed_in_parts(self) -> None:
        with mock.patch.object(_memory, "_MOST_SWEPT", 3):
            store = self.open_both()
            self.away()
            for n in range(10):
                store.next(f"{n}")
            memory = self.fallback(store).memory
            self.assertEqual(len(memory._customers), 10)
            self.back(store)
            eventually(lambda: (bool(memory), memory.swept), lambda left: left == (False, True))

            memory.next(b"a", Policy(), 1)
            memory.next(b"b", Policy(), 1)
            customers = memory._customers
            memory.clear()
            self.assertEqual((len(customers), memory._entries, memory.swept), (2, 0, False))

    def test_a_reset_is_an_error(self) -> None:
        store = self.open_both(timeout=0.05)
        self.away()
        store.submit("acme", "a")
        self.assertRaises(PriorityError, store.reset, "acme")
        self.assertEqual(store.peek("acme").rule, Rule.UNKNOWN)
        self.open_circuit(store)
        with self.assertRaisesRegex(NotCountedError, "^reset .*acme.*: Redis does not answer$"):
            store.reset("acme")
        store.done("acme", "a")
        self.back(store)
        store.reset("acme")

    def test_wrong_calls_and_corrupt_keys_are_errors(self) -> None:
        store = self.open_both(timeout=60)
        self.server.set(store.pending_key("acme"), "a text")
        for _ in range(12):
            self.assertRaises(CorruptCountError, store.submit, "acme", "a")
            self.assertRaises(CorruptCountError, store.done, "acme", "a")
            self.assertRaises(ValueError, store.submit, "", "a")
        self.assertFalse(store.degraded)
        self.assertEqual(len(self.fallback(store).dones), 0)
        self.assertFalse(store.submit("other", "a").degraded)

    def test_overrides_that_were_seen_hold(self) -> None:
        store = self.open_both(overrides=True)
        for customer, value, milliseconds in (("late", ">=7", None), ("first", "=1", 3_600_000), ("over", "=5", 50)):
            self.server.set(store.override_key(customer), value, px=milliseconds)
            eventually(lambda: store.next(customer).degraded, lambda degraded: not degraded)
        self.server.set(store.override_key("gone"), "=5")
        eventually(lambda: store.submit("gone", "a").degraded, lambda degraded: not degraded)
        self.server.delete(store.override_key("gone"))
        eventually(lambda: store.peek("gone").degraded, lambda degraded: not degraded)
        self.away()
        late = store.submit("late", "a")
        self.assertEqual((late.level, late.ruled, late.degraded), (7, 1, True))
        self.assertEqual(store.peek("late").override, Override(7, 9))
        self.assertEqual((store.next_n("first", 30)[-1].level, store.next("gone").level), (1, 1))
        eventually(lambda: store.next("over").level, lambda level: level == 1)

    def test_without_a_fallback_an_outage_is_an_error(self) -> None:
        self.assertRaises(TypeError, self.open, fallback=1)
        self.away()
        for options, has in (
            ({}, False), ({"join": True, "fallback": False}, False), ({"join": True}, True), ({"fallback": True}, True), ({"fallback": None}, False),
        ):
            with self.subTest(**options):
                store = self.open(self.between.url, timeout=0.05, **options)
                if has:
                    self.assertTrue(store.next("acme").degraded)
                else:
                    self.assertRaises(NotCountedError, store.next, "acme")
                self.assertEqual(store.degraded, has)

    def test_close_pays_what_is_owed(self) -> None:
        with mock.patch.object(_fallback, "PROBE_SECONDS", 60):
            store = self.open_both()
            store.submit_n("acme", ["a", "b", "c"])
            self.away()
            for document, took in (("a", 0), ("b", 5), ("c", 0)):
                store.done("acme", document, timedelta(seconds=took))
            self.between.fault = ""
            self.assertEqual(self.books(store, "acme"), {"acme": 3})
            store.close()
        self.assertEqual(self.books(store, "acme"), {"acme": 0})
        self.assertRaises(NotCountedError, store.next, "acme")

    def test_close_ends_in_an_outage(self) -> None:
        for fault in ("away", "hold"):
            with self.subTest(fault):
                store = self.open_both()
                store.submit("acme", "a")
                self.goes(fault)
                store.done("acme", "a")
                with self.assertLogs("docpriority", "WARNING") as logs:
                    store.close()
                self.assertIn("1 documents that are done stay pending", logs.output[-1])
                self.assertRaises(NotCountedError, store.next, "acme")

    def test_operators_are_told_once(self) -> None:
        store = self.open_both(timeout=0.05)
        with self.assertLogs("docpriority", "INFO") as logs:
            self.away()
            self.open_circuit(store)
            for n in range(100):
                store.submit("acme", f"{n}")
            self.back(store)
        self.assertEqual([record.levelname for record in logs.records], ["WARNING", "INFO"])
        self.assertRegex(logs.output[0], "Redis does not answer, .*no connection to")

    def test_a_member_reports_what_memory_decided(self) -> None:
        for name in ("FOLLOW_SECONDS", "REPORT_SECONDS"):
            patched = mock.patch.object(_member, name, 0.02)
            patched.start()
            self.addCleanup(patched.stop)
        own = prefix()
        operator, store = Operator(self.server, own), self.open_both(prefix=own, join=True, fallback=None)
        store.peek("nobody")
        operator.reported(lambda report: not report["degraded"])
        self.away()
        self.assertTrue(all(store.submit("acme", f"{n}").degraded for n in range(3)))
        store.next_n("acme", 4)
        member = next(iter(store._member._by_process.values()))._member if not self.asynchronous else store.store._member._member
        self.assertTrue(member._report(time.monotonic())["degraded"])
        self.back(store)
        report = operator.reported(lambda report: report["fallback"] and not report["degraded"])
        self.assertEqual((report["fallback"], report["errors"]), (7, {}))

    def test_a_redis_that_is_full_answers_probes_and_counts_nothing(self) -> None:
        server = self.scripted("answered")
        server.reply = b"*2\r\n:0\r\n:0\r\n"  # as of a done
        store = self.open(server.url, timeout=60, fallback=True)
        server.tries = ["OOM command not allowed when used memory > 'maxmemory'."]
        for n in range(12):
            self.assertTrue(store.next("acme").degraded)
        server.tries = ["answered"]
        eventually(lambda: self.fallback(store)._circuit.is_open, lambda is_open: not is_open)
        server.tries = ["OOM command not allowed when used memory > 'maxmemory'."]
        self.assertTrue(eventually(lambda: store.next("acme"), lambda d: self.fallback(store)._circuit.is_open).degraded)


@needs_redis
class Impatience(OutageCase):
    """Callers who do not wait for the timeout."""

    def test_they_open_the_circuit_and_lose_no_done(self) -> None:
        if not self.asynchronous:
            return

        async def impatient(call: Any) -> None:
            await asyncio.wait_for(call, 0.05)

        store = self.open_both(timeout=SHORT)
        eventually(lambda: store.submit("acme", "a").degraded, lambda degraded: not degraded)
        self.between.hold()
        with self.assertRaises(asyncio.TimeoutError):
            self.loop.run(impatient(store.store.done("acme", "a")))
        self.assertEqual(len(self.fallback(store).dones), 1)
        with self.assertRaises(asyncio.TimeoutError):
            self.loop.run(impatient(store.store.submit("acme", "a")))
        self.assertEqual(len(self.fallback(store).dones), 1)
        eventually(lambda: self.fallback(store)._circuit.is_open, bool)
        self.assertTrue(store.degraded)
        self.loop.run(impatient(store.store.submit("other", "a")))
        self.back(store)


@needs_redis
class Loops(unittest.TestCase):
    """Event loops that stand or end while something is owed."""

    def setUp(self) -> None:
        probes = mock.patch.object(_fallback, "PROBE_SECONDS", 0.01)
        probes.start()
        self.addCleanup(probes.stop)
        self.between = Proxy((HOST, int(PORT)))
        self.addCleanup(self.between.close)
        self.store = docpriority.AsyncStore(redis.asyncio.Redis.from_url(self.between.url), prefix=prefix(), timeout=SHORT, fallback=True)
        self.fallback = self.store._fallback.here()

    async def away(self) -> None:
        self.between.fault = "away"
        self.between.close_connections()
        while not self.fallback._circuit.is_open:
            await self.store.peek("nobody")

    async def paid(self) -> None:
        """Waits until nothing is owed, and closes the store."""
        async def is_paid() -> None:
            while self.store.degraded or len(self.fallback.dones):
                await self.store.peek("nobody")
                await asyncio.sleep(0.01)

        await asyncio.wait_for(is_paid(), LONG)
        await self.store.close()

    def test_another_one_goes_on_while_one_stands(self) -> None:
        standing = asyncio.new_event_loop()
        self.addCleanup(standing.close)
        with mock.patch.object(_fallback, "PROBE_SECONDS", 60):
            standing.run_until_complete(self.away())
        standing.run_until_complete(self.store.done("acme", "a"))
        self.between.release()
        asyncio.run(self.paid())

    def test_another_one_pays_what_one_owed_that_ended(self) -> None:
        self.between.fault = "away"
        asyncio.run(self.store.done("acme", "a"))
        self.assertEqual(len(self.fallback.dones), 1)
        self.between.release()
        asyncio.run(self.paid())

    def test_a_loop_for_each_call_finds_that_redis_is_back(self) -> None:
        with mock.patch.object(_fallback, "PROBE_SECONDS", 60), mock.patch.object(_fallback, "_OVERDUE_SECONDS", 0.01):
            asyncio.run(self.away())
            eventually(lambda: asyncio.run(self.store.submit("acme", "a")).degraded, bool)
            self.between.release()
            eventually(lambda: asyncio.run(self.store.submit("acme", "a")).degraded, lambda degraded: not degraded)
        asyncio.run(self.paid())

    def test_a_call_that_ends_after_its_loop_says_nothing(self) -> None:
        call = self.store.done("acme", "a")

        async def begin() -> None:
            call.send(None)

        asyncio.run(begin())
        call.close()  # as Python does when it forgets the call
        self.assertEqual(len(self.fallback.dones), 1)


@needs_redis
class Processes(unittest.TestCase):
    def setUp(self) -> None:
        self.between = Proxy((HOST, int(PORT)))
        self.addCleanup(self.between.close)
        self.store = docpriority.Store(redis.Redis.from_url(self.between.url), prefix=prefix(), timeout=SHORT, fallback=True)
        self.addCleanup(self.store.close)
        self.server = redis.Redis(HOST, int(PORT))
        self.addCleanup(self.server.close)

    def in_child(self, work: Any) -> None:
        """Asserts that something holds in a child."""
        child = os.fork()
        if child == 0:
            try:
                os._exit(0 if work() else 1)
            finally:
                os._exit(2)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)

    def test_a_child_has_a_fallback_of_its_own(self) -> None:
        store = self.store
        store.submit_n("acme", ["a", "b"])
        self.between.fault = "away"
        self.between.close_connections()
        for n in range(12):
            store.done("acme", "a")
        fallback = store._fallback
        assert fallback is not None
        parent = fallback.here()
        self.assertTrue(parent._circuit.is_open)

        def work() -> bool:
            with parent.memory._lock:
                own = fallback.here()
                first = store.submit("acme", "c")  # asks Redis, which is away for it too
                store.done("acme", "b")
                return own is not parent and first.degraded and first.pending == 1 and [*own.dones._owed[b"acme"]] == [b"b"]

        with parent.memory._lock, parent.dones._lock, parent._circuit._lock:
            self.in_child(work)
        self.between.fault = ""

        def back() -> bool:
            store.done("acme", "b")
            return bool(eventually(lambda: not store.degraded and len(fallback.here().dones) == 0, bool))

        self.in_child(back)
        eventually(lambda: self.server.zcard(store.pending_key("acme")), lambda pending: pending == 0)

    def test_a_child_of_multiprocessing_pays_before_it_ends(self) -> None:
        self.store.submit_n("acme", ["a", "b"])

        def work() -> None:
            self.store._fallback.here().dones.hold(b"acme", [b"a", b"b"], 0, time.monotonic())

        with mock.patch.object(_fallback, "PROBE_SECONDS", 60):
            child = multiprocessing.get_context("fork").Process(target=work)
            child.start()
            child.join()
        self.assertEqual((child.exitcode, self.server.zcard(self.store.pending_key("acme"))), (0, 0))

    def test_the_end_of_the_program_pays_where_no_thread_can_start(self) -> None:
        self.store.submit("acme", "a")
        with mock.patch.object(_fallback, "PROBE_SECONDS", 60):
            self.between.fault = "away"
            self.between.close_connections()
            self.store.done("acme", "a")
        self.between.release()
        refused = RuntimeError("can't create new thread at interpreter shutdown")
        with mock.patch.object(_thread, "start_new_thread", side_effect=refused):
            self.store.close()
        self.assertEqual(self.server.zcard(self.store.pending_key("acme")), 0)

    def test_no_thread_stays(self) -> None:
        def threads() -> list[str]:
            return [thread.name for thread in threading.enumerate() if thread.name == "docpriority-fallback"]

        with mock.patch.object(_fallback, "PROBE_SECONDS", 0.01):
            self.between.fault = "away"
            self.between.close_connections()
            self.store.done("acme", "a")
            self.assertEqual(len(threads()), 1)
            self.between.fault = ""
            eventually(threads, lambda left: not left)
            self.between.fault = "away"
            self.between.close_connections()
            self.store.done("acme", "a")
            self.assertEqual(len(threads()), 1)
            self.store.close()
            self.assertEqual(threads(), [])


class Owed(unittest.TestCase):
    def test_one_customers_dones_do_not_crowd_out_anothers(self) -> None:
        with mock.patch.object(_dones, "_MOST", 1000):
            dones = Dones()
            dones.hold(b"small", [b"1", b"2", b"3"], 0, 0)
            for n in range(0, 5000, 500):
                dones.hold(b"flood", [b"%d" % of for of in range(n, n + 500)], 0, 0)
            dones.hold(b"late", [b"1", b"2", b"3"], 0, 0)
            self.assertEqual(len(dones), sum(len(owed) for owed in dones._owed.values()))
            self.assertLessEqual(len(dones), 1000)
            self.assertEqual({len(dones._owed[customer]) for customer in (b"small", b"late")}, {3})
            self.assertGreater(len(dones._owed[b"flood"]), 450)
            for n in range(2000):
                dones.hold(b"%d" % n, [b"a", b"b"], 0, 0)
            self.assertLessEqual(len(dones), 1000)
            self.assertEqual({len(dones._owed[customer]) for customer in (b"small", b"late", b"400")}, {3, 2})

    def test_no_more_leave_than_have_to(self) -> None:
        with mock.patch.object(_dones, "_MOST", 1000):
            dones = Dones()
            dones.hold(b"flood", [b"%d" % n for n in range(800)], 0, 0)
            dones.hold(b"other", [b"%d" % n for n in range(200)], 0, 0)
            for n in range(700):
                dones.hold(b"%d" % n, [b"a"], 0, 0)
            self.assertEqual((len(dones), len(dones._owed)), (1000, 702))
            self.assertLess(abs(len(dones._owed[b"flood"]) - len(dones._owed[b"other"])), 200)

    def test_a_payment_has_documents_of_which_as_much_is_known(self) -> None:
        dones = Dones()
        dones.hold(b"acme", [b"%d" % n for n in range(1500)], 0, 0)
        dones.hold(b"acme", [b"a", b"b"], 2.5, 0)
        dones.hold(b"acme", [b"c"], 0, 0)
        paid = []
        while True:
            payment = dones.pay(b"acme", 1)
            if payment is None:
                break
            paid.append((len(payment.documents), payment.seconds))
            dones.paid(payment, True)
        self.assertEqual(paid, [(1000, 0), (501, 0), (2, 5)])
        self.assertEqual((len(dones), dones.customers()), (0, []))

    def test_a_done_is_forgotten_after_a_day(self) -> None:
        dones = Dones()
        dones.hold(b"acme", [b"%d" % n for n in range(2000)], 0, 0)
        dones.hold(b"acme", [b"late"], 0, 10)
        payment = dones.pay(b"acme", 86_405)
        self.assertEqual(payment and payment.documents, [b"late"])

    def test_a_submit_cancels(self) -> None:
        dones = Dones()
        dones.hold(b"acme", [b"a", b"b"], 0, 7)
        self.assertEqual(dones.cancel(b"acme", [b"a", b"none"]), ([Held(b"a", 0, 7)], False))
        payment = dones.pay(b"acme", 8)
        assert payment
        self.assertTrue(dones.cancel(b"acme", [b"b"])[1])
        self.assertFalse(dones.cancel(b"other", [b"b"])[1])
        dones.paid(payment, False)
        self.assertFalse(dones.cancel(b"acme", [b"b"])[1])
        done = dones.begin(b"acme", [b"c", b"d"])
        dones.cancel(b"acme", [b"d"])
        self.assertEqual((dones.end(done), len(dones), dones._under_way), ([b"c"], 0, {}))


class Nodes(unittest.TestCase):
    """A cluster of which a node is away."""

    def test_memory_answers_for_those_customers_alone_for_whom_redis_fails(self) -> None:
        calls = Calls("priority", Policy(), None, None, timedelta(days=1), False)
        fallback = _fallback.Fallback(calls, Overrides(), True, lambda: None)
        for customer in (b"here", b"away", b"here too"):
            fallback.failed(customer, NotCountedError("a test"))
        self.probe(fallback, {b"{away}"})
        self.assertEqual([fallback.away(customer) for customer in (b"here", b"away", b"here too", b"other")], [False, True, False, False])
        self.assertTrue(fallback.degraded)
        self.probe(fallback, set())
        self.assertFalse(fallback.away(b"away"))

    def test_dones_that_keep_coming_hold_no_probe_up(self) -> None:
        calls = Calls("priority", Policy(), None, None, timedelta(days=1), False)
        fallback = _fallback.Fallback(calls, Overrides(), False, lambda: None)
        fallback.failed(b"acme", NotCountedError("a test"))
        fallback.dones.hold(b"acme", [b"a"], 0, time.monotonic())
        steps, paid = fallback.round(), 0
        next(steps)
        with suppress(StopIteration):
            for paid in range(100):
                steps.send(None)
                fallback.failed(b"acme", NotCountedError("a test"))  # until the circuit opens again
                fallback.dones.hold(b"acme", [b"another %d" % paid], 0, time.monotonic())
        self.assertLess(paid, 20)

    def probe(self, fallback: Any, fail: set[bytes]) -> None:
        """Does a round, in which the calls with these in their keys fail."""
        steps, asked = fallback.round(), 0
        with suppress(StopIteration):
            call = next(steps)
            while True:
                asked += 1
                fails = any(part in call.keys[0] for part in fail)
                call = steps.send(NotCountedError("a test") if fails else None)
        self.assertGreater(asked, 0)


class Circuits(unittest.TestCase):
    def test_ten_failures_in_a_row_open_it(self) -> None:
        circuit = Circuit()
        for _ in range(9):
            circuit.failed()
        circuit.succeeded(True)
        self.assertEqual([circuit.failed() for _ in range(11)], [False] * 9 + [True, False])
        self.assertTrue(circuit.is_open)
        circuit.succeeded(True)  # a call that began before
        self.assertTrue(circuit.is_open)

    def test_a_probe_closes_it_on_trust(self) -> None:
        circuit = Circuit()
        circuit.open()
        self.assertFalse(circuit.probed())
        self.assertEqual((circuit.is_open, circuit.is_failing), (False, True))
        self.assertFalse(circuit.succeeded(False))
        self.assertFalse(circuit.failed())
        self.assertTrue(circuit.is_open)
        circuit.probed()
        self.assertTrue(circuit.succeeded(True))
        self.assertFalse(circuit.is_failing)
        self.assertFalse(circuit.failed())
        self.assertFalse(circuit.is_open)

    def test_ten_probes_prove_as_much_as_a_document(self) -> None:
        circuit = Circuit()
        circuit.open()
        self.assertEqual([circuit.probed() for _ in range(11)], [False] * 9 + [True, False])
        self.assertFalse(circuit.is_failing)


both_kinds(globals())
