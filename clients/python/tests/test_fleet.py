"""Members of the fleet, where Python has processes, threads and event loops of its own. The rest is for
clients/conformance."""

import asyncio
import json
import os
import subprocess
import sys
import unittest
from datetime import timedelta
from typing import Any
from unittest import mock

import redis
import redis.asyncio

import docpriority
from docpriority import Decision, Ended, _member
from docpriority._report import Window, fitted

from .support import HOST, LONG, PORT, eventually, needs_redis, prefix


@needs_redis
class Members(unittest.TestCase):
    def setUp(self) -> None:
        self.server, self.own = redis.Redis(HOST, int(PORT)), prefix()
        self.addCleanup(self.server.close)
        for name in ("FOLLOW_SECONDS", "REPORT_SECONDS"):
            patched = mock.patch.object(_member, name, 0.02)
            patched.start()
            self.addCleanup(patched.stop)

    def reports(self) -> dict[int, Any]:
        """Returns the reports of the fleet by their processes."""
        ids = self.server.zrange(f"{self.own}:{{fleet}}:members", 0, -1)
        texts = [self.server.get(f"{self.own}:{{fleet}}:{id.decode()}") for id in ids]
        return {report["pid"]: report for report in (json.loads(text) for text in texts if text)}

    def reported(self, want: Any = bool) -> Any:
        """Returns the report of this process once it is as wanted."""
        return eventually(lambda: self.reports().get(os.getpid()), lambda report: report and want(report))

    def test_a_child_after_a_fork_is_another_member_with_its_own_connections(self) -> None:
        store = docpriority.Store(redis.Redis(HOST, int(PORT)), prefix=self.own, timeout=LONG, join=True)
        self.addCleanup(store.close)
        self.assertEqual(store.next("acme").count, 0)
        self.server.set(f"{self.own}:{{control}}:policies", '{"version":1,"changed":1,"policies":{"thresholds":[0]}}')
        self.reported(lambda report: report["following"]["version"] == 1)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                decisions = [store.next("acme") for _ in range(100)]
                ok = all(decision.level == 2 for decision in decisions)  # by the policies that its parent followed
                report = self.reported(lambda report: report["by_count"].get("2") == 100)
                ok = ok and report["following"]["version"] == 1 and set(report["by_count"]) == {"2"}
                store.close()
                os.write(writing, json.dumps([decision.count for decision in decisions] if ok else []).encode())
            finally:
                os._exit(0)
        counts = [store.next("acme").count for _ in range(100)]
        os.waitpid(child, 0)
        os.close(writing)
        with os.fdopen(reading) as written:
            counts += json.load(written)
        self.assertEqual(sorted(counts), list(range(-200, 0)))
        self.assertEqual(list(self.reports()), [os.getpid()])

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
        arguments = [sys.executable, "-X", "dev", "-W", "ignore::ResourceWarning", "-c", program, HOST, PORT, self.own]
        ran = subprocess.run(arguments, env=environment, capture_output=True, text=True)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.assertEqual(self.reports(), {})

    def test_another_event_loop_goes_on_with_the_member(self) -> None:
        client = redis.asyncio.Redis(host=HOST, port=int(PORT))
        store = docpriority.AsyncStore(client, prefix=self.own, timeout=LONG, join=True)

        async def use() -> Any:
            await store.next("acme")
            return await asyncio.get_running_loop().run_in_executor(None, self.reported)

        ids = set()
        for _ in range(2):
            ids.add(asyncio.run(use())["id"])
            self.assertEqual(self.reports(), {})
        self.assertEqual(len(ids), 1)


class Reports(unittest.TestCase):
    def test_a_report_of_many_customers_names_those_who_matter_in_12_kilobytes(self) -> None:
        window = Window(lambda: 0)
        window.decided("load", b"waits", [Decision(1, 1, pending=2)])
        for n in range(5000):
            window.decided("load", b"\xff" * 400 + b"%d" % n, [Decision(1, 1)])
        window.decided("load", b"busy", [Decision(9, 9)] * 50)
        for level in range(1, 64):
            window.ended([Ended("a", timedelta(milliseconds=2 ** (i / 4)), level) for i in range(108)])
        busiest = [customer.get("customer") for customer in window.fields()["busiest"]]
        self.assertEqual((busiest[0], "waits" in busiest), ("busy", True))
        text = fitted(window.fields())
        self.assertTrue(10_000 < len(text) <= 12_288, len(text))
        self.assertEqual(sum(sum(buckets.values()) for buckets in json.loads(text)["waits"].values()), 63 * 108)
