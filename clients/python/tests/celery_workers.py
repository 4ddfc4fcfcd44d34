"""docpriority.celery keeps the books, with real workers on real brokers, whatever becomes of a
task. The file is not named test_*.py: a Go test of its own runs it."""

from __future__ import annotations

import importlib
import os
import random
import signal
import subprocess
import sys
import time
import unittest
import uuid
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any, Callable
from unittest import mock

import redis

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of Celery
    from celery import chord, group

from .support import HOST, PORT, Proxy

FOLDER = Path(__file__).resolve().parents[1]
RABBITMQ = os.environ.get("RABBITMQ", "")  # amqp://…; go test ./clients/python starts one


def await_that(what: str, condition: Callable[[], Any], seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"it does not come about: {what}")
        time.sleep(0.05)


class Workers:
    """A test with an app and workers of its own. Its subclasses say on which broker."""

    broker = ""
    settings: dict[str, str] = {}

    def setUp(self) -> None:
        self.queue = f"test-{uuid.uuid4().hex}"
        self.proxy = Proxy((HOST, int(PORT)))
        self.addCleanup(self.proxy.close)
        url = f"redis://{HOST}:{PORT}/0"
        settings = {"BROKER": self.broker, "QUEUE": self.queue, "SERVER": url, "STORE": url, **self.settings}
        if self._testMethodName == "test_documents_go_on_while_redis_loses_answers":
            settings.update(STORE=self.proxy.url, TIMEOUT="0.5")
        self.environment = {
            **os.environ, **settings, "PYTHONWARNINGS": "ignore", "PYTHONPATH": f"{FOLDER / 'src'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        }
        quiet = warnings.catch_warnings()
        quiet.__enter__()
        self.addCleanup(quiet.__exit__, None, None, None)
        warnings.simplefilter("ignore")
        sys.modules.pop("tests.celery_documents", None)
        with mock.patch.dict(os.environ, settings):
            self.documents = importlib.import_module("tests.celery_documents")
        self.store, self.server = self.documents.store, self.documents.server
        self.addCleanup(self.server.close)
        self.addCleanup(self.store.close)
        self.addCleanup(self.documents.app.close)

    def work(self, *more: str) -> Any:
        """Starts a worker with processes of its own."""
        worker = subprocess.Popen(
            [sys.executable, "-m", "celery", "-q", "-A", "tests.celery_documents", "worker", "-c", "2", "-l", "error", "--without-mingle", "--without-gossip", *more],
            cwd=FOLDER, env=self.environment, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        self.addCleanup(self.end, worker)
        return worker

    def kill(self, worker: Any) -> None:
        """Ends a worker and its processes as kill -9 does."""
        self.end(worker)

    def end(self, worker: Any) -> None:
        with suppress(ProcessLookupError):
            os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()

    def notes(self) -> list[str]:
        return [note.decode() for note in self.server.lrange(self.queue + "-notes", 0, -1)]

    def lost(self, customers: Any) -> int:
        """Returns how many documents of the customers the broker has lost with a killed worker."""
        return 0

    def await_done(self, customer: str, counted: int) -> None:
        """Waits until nothing of a customer is pending, and sees how many were counted."""
        await_that(f"{customer} has nothing pending", lambda: self.store.peek(customer).pending == 0)
        self.assertEqual(round(self.store.peek(customer).lately), counted)
        self.assertFalse(self.server.exists(self.store.pending_key(customer)))

    def test_the_last_word_on_a_task_is_done(self) -> None:
        for name in ("fail", "ignore", "reject", "endless", "lost"):
            getattr(self.documents, name).delay(name)
        self.documents.work.delay("work", "one")
        self.documents.app.send_task("nobody.knows", kwargs={"customer": "unknown"})
        customers = ("fail", "ignore", "reject", "endless", "lost", "work", "unknown")
        for customer in customers:
            self.assertEqual(self.store.peek(customer).pending, 1, customer)
        self.work()
        for customer in customers:
            self.await_done(customer, 1)
        self.assertEqual(self.notes().count("work one"), 1)

    def test_a_task_that_is_revoked_is_done(self) -> None:
        self.work()
        revoked = str(uuid.uuid4())
        control = self.documents.app.control
        await_that("the worker knows", lambda: control.revoke(revoked, reply=True, timeout=1))
        self.documents.work.apply_async(("revoked", "one"), task_id=revoked)
        self.await_done("revoked", 1)
        self.assertEqual(self.notes(), [])

    def test_a_task_that_is_terminated_is_done(self) -> None:
        self.work()
        task = self.documents.work.delay("terminated", "long", 3600)
        await_that("it is worked on", lambda: "begin long" in self.notes())
        self.assertEqual(self.store.peek("terminated").pending, 1)
        task.revoke(terminate=True, signal="SIGKILL")
        self.await_done("terminated", 1)

    def test_a_retry_keeps_its_document_and_its_priority(self) -> None:
        for _ in range(4):
            self.documents.work.delay("flaky", "before")
        self.documents.flaky.delay("flaky", "one")
        self.work("-c", "1")
        self.await_done("flaky", 5)
        tried = [note for note in self.notes() if note.startswith("try")]
        (priority,) = {note.split()[-1] for note in tried}
        self.assertEqual(tried, [f"try {n} pending 1 priority {priority}" for n in range(3)])
        self.assertNotIn(priority, ("None", "0" if self.broker.startswith("redis") else "8"))

    def test_what_comes_again_is_not_done(self) -> None:
        self.documents.reject.delay("requeued", requeue=True)
        self.documents.lost_once.delay("lost once")
        self.documents.replaced.delay("replaced")
        self.work()
        for customer in ("requeued", "lost once", "replaced"):
            self.await_done(customer, 1)
        first = 0 if self.broker.startswith("redis") else 8
        self.assertEqual(sorted(self.notes()), ["again pending 1"] * 2 + [f"work replacement of priority {first}"])

    def test_a_killed_worker_leaves_its_documents_pending(self) -> None:
        worker = self.work()
        self.documents.work.delay("killed", "long", 2)
        for n in range(20):
            self.documents.work.delay("killed", str(n), 0.05)
        await_that("it is worked on", lambda: "begin long" in self.notes())
        self.kill(worker)
        self.assertGreater(self.store.peek("killed").pending, 0)
        self.work()
        self.await_done("killed", 21)
        self.assertEqual({note for note in self.notes() if note.startswith("work")}, {f"work {n}" for n in ["long", *range(20)]})

    def test_the_books_are_exact_after_kills(self) -> None:
        chance = random.Random(1)
        workers = [self.work() for _ in range(2)]
        sent = {"flood": 0, "few": 0, "flaky": 0}
        done = 0
        for n in range(120):
            customer = "few" if n % 10 == 0 else "flood"
            self.documents.work.delay(customer, f"{customer}-{n}", 0.01)
            sent[customer] += 1
            if n % 20 == 0:
                self.documents.flaky.delay("flaky", str(n))
                sent["flaky"] += 1
            if n % 40 == 39:
                await_that("there is work", lambda: len(self.notes()) > done)
                self.kill(workers.pop(chance.randrange(2)))
                done = len(self.notes())
                workers.append(self.work())
        lost = self.lost(sent)
        if lost == 0:
            for customer, number in sent.items():
                self.await_done(customer, number)
        worked = {note for note in self.notes() if note.startswith("work")}
        self.assertGreaterEqual(len(worked), 120 - lost)
        self.assertLessEqual(lost, 3)  # one a kill

    def test_documents_go_on_while_redis_loses_answers(self) -> None:
        self.proxy.fault = "cut"
        with self.assertLogs("docpriority", "WARNING"):
            for n in range(5):
                self.documents.work.delay("outage", str(n))
        self.work()
        await_that("all are served", lambda: len([note for note in self.notes() if note.startswith("work")]) == 5)
        self.proxy.fault = ""
        self.documents.work.delay("outage", "after")
        await_that("it is served", lambda: "work after" in self.notes())
        await_that("nothing is pending", lambda: self.store.peek("outage").pending == 0)

    def test_the_first_levels_are_served_first(self) -> None:
        for n in range(30):
            self.documents.work.delay("archive", f"photo-{n}")
        self.documents.plain.delay("untold")  # nobody's
        self.documents.work.delay("bakery", "invoice")
        self.work("-c", "1")
        await_that("all are served", lambda: len(self.notes()) == 63)
        served = [note.split()[1] for note in self.notes() if note.startswith("work")]
        self.assertLess(served.index("invoice"), 5, served)
        self.await_done("archive", 30)


VISIBILITY = 2


class OnRedis(Workers, unittest.TestCase):
    broker = f"redis://{HOST}:{PORT}/1"
    settings = {"VISIBILITY": str(VISIBILITY)}

    def setUp(self) -> None:
        super().setUp()
        with redis.Redis.from_url(self.broker) as broker:
            broker.flushdb()  # of what killed workers had

    def lost(self, customers: Any) -> int:
        """A worker takes a message off its list before it notes that it has it. What it is killed
        with in between is nowhere: its document is pending, and no message is left."""

        def pending() -> int:
            return sum(self.store.peek(customer).pending for customer in customers)

        def messages() -> bool:
            return bool(broker.exists("unacked") or list(broker.scan_iter(f"{self.queue}*")))

        with redis.Redis.from_url(self.broker) as broker:
            await_that("all is served", lambda: pending() == 0 or not messages())
            last = time.monotonic()  # when there was a message
            while pending() and time.monotonic() < last + 5:  # a living worker may be in between, too
                if messages():
                    last = time.monotonic()
                time.sleep(0.05)
            return pending()

    def kill(self, worker: Any) -> None:
        super().kill(worker)
        # A worker looks for what others left when it starts, and then every 100 seconds.
        with redis.Redis.from_url(self.broker) as broker:
            broker.delete("unacked_mutex")  # it may have looked itself, and nobody else would for 5 minutes
            left = [time.time(), *(score for _, score in broker.zrange("unacked_index", 0, -1, withscores=True))]
        await_that("its messages may be given to others", lambda: time.time() > max(left) + VISIBILITY)

    def test_a_task_that_expired_is_done(self) -> None:  # RabbitMQ drops it by itself
        self.documents.work.apply_async(("expired", "one"), expires=-1)
        self.work()
        self.await_done("expired", 1)
        self.assertEqual(self.notes(), [])

    def test_chains_groups_and_chords_are_documents_each(self) -> None:
        work = self.documents.work
        (work.si("chain", "1") | work.si("chain", "2") | work.si("chain", "3")).delay()
        group(work.si("group", str(n)) for n in range(3)).delay()
        chord([work.si("chord", str(n)) for n in range(3)], work.si("chord", "body")).delay()
        self.assertEqual([self.store.peek(customer).pending for customer in ("chain", "group", "chord")], [1, 3, 3])
        self.work()
        await_that("all are served", lambda: len([note for note in self.notes() if note.startswith("work")]) == 10)
        for customer, number in (("chain", 3), ("group", 3), ("chord", 4)):
            self.await_done(customer, number)


class OnRabbitMQ(Workers, unittest.TestCase):
    broker = RABBITMQ


if __name__ == "__main__":
    unittest.main()
