"""Memory answers while Redis does not."""

import unittest
from datetime import timedelta
from unittest import mock

import docpriority
from docpriority import _fallback
from docpriority._calls import Calls
from docpriority._fallback import Fallback
from docpriority._policy import Policy


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
            self.fallback.failed(docpriority.NotCountedError("told to"))

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
