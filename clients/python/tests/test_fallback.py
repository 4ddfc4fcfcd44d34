"""Memory answers while Redis does not."""

import asyncio
import logging
import signal
import unittest
from contextlib import suppress
from datetime import timedelta
from typing import Any
from unittest import mock

import redis

import docpriority
from docpriority import _fallback
from docpriority._calls import Calls
from docpriority._fallback import Fallback
from docpriority._policy import Policy

from .support import SHORT, StoreCase, eventually, needs_redis

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
        self.assertEqual([record.levelname for record in logged.records], ["WARNING", "WARNING"])
        self.assertRegex(logged.output[0], "docpriority: Redis does not answer.*: told to$")
        self.assertFalse(self.fallback.asks_redis())
        for _ in range(3):
            self.now += 1
            self.assertEqual([self.fallback.asks_redis() for _ in range(3)], [True, False, False])
        self.fallback.succeeded(self.calls.next_n("acme", 1))
        self.assertTrue(self.fallback.asks_redis() and not self.fallback.degraded)

    def test_a_full_redis_that_takes_dones_does_not_count(self) -> None:
        full = docpriority.NotCountedError("full")
        full.__cause__ = redis.ResponseError("OOM command not allowed when used memory > 'maxmemory'.")
        self.fallback.failed(self.calls.next_n("acme", 1), full)
        self.fallback.succeeded(self.calls.done_n("acme", ["a"], timedelta()))
        self.assertTrue(self.fallback.degraded)
        self.fallback.succeeded(self.calls.next_n("acme", 1))
        self.assertFalse(self.fallback.degraded)
