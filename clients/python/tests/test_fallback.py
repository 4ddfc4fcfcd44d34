"""Memory answers while Redis does not."""

import asyncio
import logging
import os
import signal
import unittest
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import Any
from unittest import mock

import redis

import docpriority
from docpriority import CorruptError, Decision, NotCountedError, _fallback
from docpriority._calls import Calls
from docpriority._fallback import Fallback
from docpriority._policy import Policy

from .support import LONG, SHORT, StoreCase, eventually, needs_redis, prefix

logging.getLogger("docpriority").addHandler(logging.NullHandler())


@needs_redis
class Fallbacks(StoreCase):
    def setUp(self) -> None:
        super().setUp()
        probe = mock.patch.object(_fallback, "_PROBE_SECONDS", 0.05)
        probe.start()
        self.addCleanup(probe.stop)

    def test_callers_who_give_up_have_redis_probed(self) -> None:
        proxy = self.proxy()
        store = self.open(proxy.url, timeout=SHORT, fallback=True)
        eventually(lambda: store.next("acme").degraded, lambda degraded: not degraded)
        proxy.hold()

        def degraded() -> bool:
            self.give_up(store, 0.05)
            return bool(store.degraded)

        eventually(degraded, bool)
        self.assertTrue(store.next("acme").degraded)
        proxy.release()
        eventually(lambda: store.next("acme").degraded, lambda degraded: not degraded)

    def give_up(self, store: Any, seconds: float) -> None:
        """Calls a store and waits for so long at most."""
        if self.asynchronous:

            async def call() -> None:
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(store.store.next("acme"), seconds)

            return self.loop.run(call())

        class Impatience(Exception):
            pass

        def ring(*_: Any) -> None:
            raise Impatience

        before = signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        with suppress(Impatience):
            try:
                store.next("acme")
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

    def test_reset_reaches_memory_in_any_case(self) -> None:
        store = self.open("redis://127.0.0.1:1", timeout=0.05, fallback=True)
        store.next_n("acme", 3)
        self.assertRaises(NotCountedError, store.reset, "acme")
        self.assertEqual(store.next("acme").count, 0)


class Breakers(unittest.TestCase):
    def setUp(self) -> None:
        self.calls = Calls("priority", Policy(), None, None, Policy().reset_interval, False)
        self.now = 0.0
        clock = mock.patch.object(_fallback.time, "monotonic", lambda: self.now)
        clock.start()
        self.addCleanup(clock.stop)
        self.fallback = Fallback(self.calls.memory)

    def failing(self, times: int = 1) -> None:
        for _ in range(times):
            self.fallback.failed(self.calls.peek("acme"), docpriority.NotCountedError("told to"))

    def test_ten_failures_in_a_row_open_it_and_one_call_a_second_probes(self) -> None:
        with self.assertLogs("docpriority") as logged:
            self.failing(9)
            self.fallback.succeeded(self.calls.done_n("acme", ["a"], timedelta()))
            self.failing(9)  # it is not logged twice within a minute
            self.assertTrue(self.fallback.asks_redis() and self.fallback.degraded)
            self.failing()
        self.assertEqual([record.levelname for record in logged.records], ["WARNING", "INFO"])
        self.assertRegex(logged.output[0], "docpriority: Redis does not answer.*: told to$")
        self.assertFalse(self.fallback.asks_redis())
        for _ in range(3):
            self.now += 1
            self.assertEqual([self.fallback.asks_redis() for _ in range(3)], [True, False, False])
        self.fallback.succeeded(self.calls.next_n("acme", 1))
        self.assertTrue(self.fallback.asks_redis() and not self.fallback.degraded)

    def test_once_redis_counts_a_user_memory_forgets_the_account_too(self) -> None:
        calls = Calls("priority", Policy(), None, None, timedelta(days=1), True, accounts=True)
        fallback, call = Fallback(calls.memory), calls.submit_n("acme/mary", ["document"])
        call.by_memory(fallback.memory)
        self.assertEqual(len(fallback.memory), 4)
        fallback.succeeded(call)
        self.assertEqual(len(fallback.memory), 0)

    def test_a_full_redis_that_takes_dones_does_not_count(self) -> None:
        full = docpriority.NotCountedError("full")
        full.__cause__ = redis.ResponseError("OOM command not allowed when used memory > 'maxmemory'.")
        self.fallback.failed(self.calls.next_n("acme", 1), full)
        self.fallback.succeeded(self.calls.done_n("acme", ["a"], timedelta()))
        self.assertTrue(self.fallback.degraded)
        self.fallback.succeeded(self.calls.next_n("acme", 1))
        self.assertFalse(self.fallback.degraded)

    def test_a_corrupt_key_is_an_answer(self) -> None:
        self.failing(10)
        self.assertFalse(self.fallback.failed(self.calls.peek("acme"), CorruptError("told to")))
        self.assertTrue(self.fallback.asks_redis() and not self.fallback.degraded)


class Forks(unittest.TestCase):
    def test_a_child_begins_with_an_empty_memory(self) -> None:
        store = docpriority.Store(redis.Redis("127.0.0.1", 1), prefix=prefix(), timeout=0.01, fallback=True)
        self.assertEqual([decision.count for decision in store.next_n("acme", 3)], [0, -1, -2])
        fallback: Any = store._fallback
        with ThreadPoolExecutor(1) as another:
            for lock in (fallback._lock, fallback.memory._lock):
                another.submit(lock.__enter__).result()
            child = os.fork()
            if child == 0:
                try:
                    signal.alarm(int(LONG))  # which ends a child that waits for a lock
                    os._exit(0 if store.next("acme") == Decision(1, 1, 0, Policy().reset_interval, degraded=True) else 1)
                finally:
                    os._exit(2)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
