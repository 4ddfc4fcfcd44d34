"""Members of the fleet: they follow the operators' policies, and report what they did."""

import asyncio
import json
import logging
import os
import subprocess
import sys
import threading
import time
import unittest
from datetime import timedelta
from typing import Any, Callable
from unittest import mock

import redis
import redis.asyncio

import docpriority
from docpriority import Decision, Ended, NotCountedError, Policy, _member
from docpriority._calls import Calls
from docpriority._following import Follower
from docpriority._report import Window, fitted

from .support import HOST, LONG, PORT, StoreCase, eventually, needs_redis, prefix

logging.getLogger("docpriority").addHandler(logging.NullHandler())


class Operator:
    """Sets policies as lua/policies.lua does."""

    def __init__(self, server: Any, own: str) -> None:
        self.server, self.own, self.version = server, own, 0
        self.key = f"{own}:{{control}}:policies"

    def apply(self, policies: Any) -> int:
        self.version += 1
        item = {"version": self.version, "changed": int(time.time() * 1000), "by": "mary", "why": "a test", "policies": policies}
        self.server.set(self.key, json.dumps(item, separators=(",", ":")))
        return self.version

    def reports(self) -> list[dict[str, Any]]:
        ids = self.server.zrange(f"{self.own}:{{fleet}}:members", 0, -1)
        texts = [self.server.get(f"{self.own}:{{fleet}}:{id.decode()}") for id in ids]
        return [json.loads(text) for text in texts if text]

    def report(self) -> dict[str, Any]:
        (report,) = self.reports() or [{}]
        return report

    def reported(self, want: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """Returns a report that is as wanted."""
        return eventually(self.report, lambda report: report and want(report))


@needs_redis
class Fleets(StoreCase):
    def setUp(self) -> None:
        super().setUp()
        for name in ("FOLLOW_SECONDS", "REPORT_SECONDS"):
            patched = mock.patch.object(_member, name, 0.02)
            patched.start()
            self.addCleanup(patched.stop)

    def joined(self, **options: Any) -> tuple[Any, Operator]:
        """Returns a store that has read the policies, and the operator of its fleet."""
        own = prefix()
        operator = Operator(self.redis(), own)
        store = self.open(**{"timeout": LONG, "join": True, "prefix": own, **options})
        store.peek("acme")
        operator.reported(lambda report: True)
        return store, operator

    def test_a_member_whose_latest_call_failed_is_degraded(self) -> None:
        proxy = self.proxy()
        store, operator = self.joined(url=proxy.url, timeout=1)
        for fault in ("cut", ""):
            proxy.fault = fault
            store.next("acme")
            proxy.fault = ""
            operator.reported(lambda report: report["degraded"] is bool(fault))

    def test_other_policies_are_reported_at_once(self) -> None:
        with mock.patch.object(_member, "REPORT_SECONDS", 1000):
            store, operator = self.joined(accounts=True)
            version = operator.apply({"thresholds": [-1], "in_order": True})
            report = operator.reported(lambda report: report["following"] == {"version": version, "own": False})
            self.assertTrue(report["accounts"] and "in_order = true" in store.script("submit", "acme"))

    def test_a_lost_report_is_reported(self) -> None:
        _, operator = self.joined()
        ttl = operator.server.ttl(f"{operator.own}:{{fleet}}:{operator.report()['id']}")
        self.assertTrue(3000 < ttl <= 3600, ttl)
        emptied = f"{operator.own}:{{fleet}}:emptied"
        self.assertIsNone(operator.server.get(emptied))
        operator.server.delete(*operator.server.keys(f"{operator.own}:{{fleet}}:*"))
        operator.reported(lambda report: operator.server.get(emptied) is not None)


@needs_redis
class Processes(unittest.TestCase):
    def setUp(self) -> None:
        self.server = redis.Redis(HOST, int(PORT))
        self.addCleanup(self.server.close)
        self.operator = Operator(self.server, prefix())
        for name in ("FOLLOW_SECONDS", "REPORT_SECONDS"):
            patched = mock.patch.object(_member, name, 0.02)
            patched.start()
            self.addCleanup(patched.stop)

    def test_a_child_is_another_member(self) -> None:
        store = docpriority.Store(redis.Redis(HOST, int(PORT)), prefix=self.operator.own, timeout=LONG, join=True)
        self.addCleanup(store.close)
        store.next_n("acme", 3)
        self.operator.apply({"thresholds": [-1]})
        self.operator.reported(lambda report: report["following"]["version"] == 1)
        assert store._calls.window is not None
        store._calls.window.failed(ValueError(), 1)  # the parent fails, and has not reported it yet
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                ok = store.next("acme").level == 2  # by the policies that its parent followed
                own = lambda: [report for report in self.operator.reports() if report["pid"] == os.getpid()]  # noqa: E731
                (report,) = eventually(own, lambda reports: reports and reports[0]["by_count"])
                ok = ok and (report["by_count"], report["errors"]) == ({"2": 1}, {}) and report["following"]["version"] == 1
                store.close()
                os.write(writing, b"ok" if ok else b"no")
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        os.close(writing)
        with os.fdopen(reading) as answer:
            self.assertEqual(answer.read(), "ok")
        self.assertEqual([report["pid"] for report in self.operator.reports()], [os.getpid()])

    def test_the_end_of_a_program_removes_its_report(self) -> None:
        program = (
            "import asyncio, docpriority, redis, redis.asyncio, sys, time\n"
            "host, port, own = sys.argv[1], int(sys.argv[2]), sys.argv[3]\n"
            "server = redis.Redis(host, port)\n"
            "def wait():\n"
            "    while not server.zcard(own + ':{fleet}:members'): time.sleep(0.01)\n"
            "async def main():\n"
            "    asyncio.get_running_loop().slow_callback_duration = 60\n"  # else a busy machine is a warning
            "    store = docpriority.AsyncStore(redis.asyncio.Redis(host=host, port=port), prefix=own, timeout=60, join=True)\n"
            "    await store.next('acme')\n"
            "    await asyncio.get_running_loop().run_in_executor(None, wait)\n"
            "asyncio.run(main())\n"
            "assert not server.zcard(own + ':{fleet}:members')\n"
            "store = docpriority.Store(redis.Redis(host, port), prefix=own, timeout=60, join=True)\n"
            "store.next('acme')\n"
            "wait()\n"
            "server.close()\n"
        )
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        arguments = [sys.executable, "-X", "dev", "-W", "ignore::ResourceWarning", "-c", program, HOST, PORT, self.operator.own]
        ran = subprocess.run(arguments, env=environment, capture_output=True, text=True)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.assertEqual(self.operator.reports(), [])


@needs_redis
class Loops(unittest.TestCase):
    def test_another_event_loop_goes_on_with_the_member(self) -> None:
        with redis.Redis(HOST, int(PORT)) as server:
            operator = Operator(server, prefix())
            client = redis.asyncio.Redis(host=HOST, port=int(PORT))
            store = docpriority.AsyncStore(client, prefix=operator.own, timeout=LONG, join=True)

            async def use() -> Any:
                await store.next("acme")
                return await asyncio.get_running_loop().run_in_executor(None, operator.reported, lambda report: True)

            ids = set()
            with mock.patch.object(_member, "REPORT_SECONDS", 1000):
                for _ in range(2):
                    ids.add(asyncio.run(use())["id"])
                    self.assertEqual(operator.reports(), [])
            self.assertEqual(len(ids), 1)


class Following(unittest.TestCase):
    def setUp(self) -> None:
        self.follower = Follower(Calls("priority", Policy(), None, None, timedelta(days=1), True))

    def test_the_code_of_an_error_is_the_first_word_of_redis(self) -> None:
        for cause, reason in (
            (redis.ConnectionError("connection refused"), {"code": "unreachable"}),
            (redis.ResponseError("CORRUPT a key is not a string"), {"code": "corrupt"}),
            (redis.ResponseError("WRONGPASS invalid username-password pair"), {"code": "refused", "detail": "WRONGPASS"}),
        ):
            error = NotCountedError()
            error.__cause__ = cause
            self.follower.failed(error)
            self.assertEqual(self.follower.following, {"version": 0, "own": True, **reason})


class Reports(unittest.TestCase):
    def test_the_busiest_are_found_however_many_others_come(self) -> None:
        window = Window(lambda: 0)
        window.decided("load", b"waits", [Decision(1, 1, pending=2)])
        for n in range(5000):
            window.decided("load", b"customer %d" % n, [Decision(1, 1)])
            if n % 100 == 0:
                window.decided("load", b"busy", [Decision(9, 9)] * 10)
            self.assertLessEqual(len(window._hour.all[0].customers), 1000)
            self.assertLessEqual(len(window._waiting), 1000)
        busiest = [customer["customer"] for customer in window.fields()["busiest"]]
        self.assertEqual(busiest[0], "busy")
        self.assertIn("waits", busiest)

    def test_a_report_has_at_most_12_kilobytes(self) -> None:
        window = Window(lambda: 0)
        for level in range(1, 64):
            window.ended([Ended("a", timedelta(milliseconds=2 ** (i / 4)), level) for i in range(108)])
        for n in range(20):
            window.decided("load", b"\xff" * 500 + b"%d" % n, [Decision(n + 1, n + 1)] * (n + 1))
        fields = window.fields()
        report = json.loads(fitted(fields.copy()))
        self.assertEqual(sum(sum(buckets.values()) for buckets in report["waits"].values()), 63 * 108)
        self.assertEqual([customer["documents"] for customer in report["busiest"]], list(range(20, 20 - len(report["busiest"]), -1)))
        many = {level: 10**12 for level in range(1, 256)}
        text = fitted({**fields, "by_count": many, "by_load": many, "waits": {level: {n: 10**9 for n in range(108)} for level in range(1, 256)}})
        self.assertLessEqual(len(text), 12_288)
        self.assertNotIn("waits", json.loads(text))

    def test_a_thread_that_cannot_start_is_started_by_a_later_call(self) -> None:
        store = docpriority.Store(redis.Redis("127.0.0.1", 1), join=True, fallback=False, timeout=0.01)
        self.addCleanup(store.close)
        with mock.patch.object(threading.Thread, "start", side_effect=RuntimeError("can't start new thread")):
            self.assertRaises(NotCountedError, store.next, "acme")
        self.assertRaises(NotCountedError, store.next, "acme")
        self.assertTrue(store._member._by_process[os.getpid()].is_alive())  # type: ignore[union-attr]
