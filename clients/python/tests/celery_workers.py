"""docpriority.celery keeps the books, with real workers on real brokers, whatever becomes of a
task. The file is not named test_*.py: a Go test of its own runs it."""

from __future__ import annotations

import importlib
import os
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
    warnings.simplefilter("ignore")  # Celery warns where Python is newer
    from celery import chord, group

from .support import HOST, PORT

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
        url = f"redis://{HOST}:{PORT}/0"
        settings = {"BROKER": self.broker, "QUEUE": self.queue, "SERVER": url, **self.settings}
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

    def await_done(self, customer: str, counted: int) -> None:
        """Waits until nothing of a customer is pending, and sees how many were counted."""
        await_that(f"{customer} has nothing pending", lambda: self.store.peek(customer).pending == 0)
        self.assertEqual(round(self.store.peek(customer).recent), counted)

    def test_a_killed_worker_leaves_its_documents_pending(self) -> None:
        # No third task: Celery on Redis loses one that it takes when it is killed.
        worker = self.work()
        for name in ("one", "two"):
            self.documents.work.delay("killed", name, 2)
        await_that("both are worked on", lambda: set(self.notes()) >= {"begin one", "begin two"})
        self.kill(worker)
        self.assertEqual(self.store.peek("killed").pending, 2)
        self.work()
        self.await_done("killed", 2)
        self.assertEqual({note for note in self.notes() if note.startswith("work")}, {"work one", "work two"})


VISIBILITY = 2


class OnRedis(Workers, unittest.TestCase):
    broker = f"redis://{HOST}:{PORT}/1"
    settings = {"VISIBILITY": str(VISIBILITY)}

    def setUp(self) -> None:
        super().setUp()
        with redis.Redis.from_url(self.broker) as broker:
            broker.flushdb()  # killed workers have left messages

    def kill(self, worker: Any) -> None:
        super().kill(worker)
        # A worker looks for what others left when it starts, and then every 100 seconds.
        with redis.Redis.from_url(self.broker) as broker:
            broker.delete("unacked_mutex")  # it may have looked itself, and nobody else would for 5 minutes
            left = [time.time(), *(score for _, score in broker.zrange("unacked_index", 0, -1, withscores=True))]
        await_that("its messages may be given to others", lambda: time.time() > max(left) + VISIBILITY)

    def test_what_comes_again_is_not_done(self) -> None:
        self.documents.reject.delay("requeued", requeue=True)
        self.documents.lost_once.delay("lost once")
        self.documents.replaced.delay("replaced")
        self.work()
        for customer in ("requeued", "lost once", "replaced"):
            self.await_done(customer, 1)
        self.assertEqual(sorted(self.notes()), ["again pending 1"] * 2 + ["work replacement of priority 0"])

    def test_what_is_due_tomorrow_is_no_load_today(self) -> None:
        for n in range(500):
            self.documents.work.apply_async(("acme", f"tomorrow {n}"), countdown=86_400)
        self.documents.work.delay("acme", "now")
        state = self.store.peek("acme")
        self.assertEqual((state.level, state.pending, state.scheduled), (1, 1, 500))
        self.work("-c", "1")
        await_that("today's is done", lambda: self.store.peek("acme").pending == 0)
        self.assertEqual((self.notes(), self.store.peek("acme").scheduled), (["begin now", "work now"], 500))

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

    def test_a_retry_keeps_its_document_and_its_priority(self) -> None:
        for _ in range(4):
            self.documents.work.delay("flaky", "before")
        self.documents.flaky.delay("flaky", "one")
        self.work("-c", "1")
        self.await_done("flaky", 5)
        tried = [note for note in self.notes() if note.startswith("try")]
        (priority,) = {note.split()[-1] for note in tried}
        self.assertEqual(tried, [f"try {n} pending 1 priority {priority}" for n in range(3)])
        self.assertNotIn(priority, ("None", "0"))

    def test_chains_groups_and_chords_are_documents_each(self) -> None:
        work = self.documents.work
        work.apply_async(("expired", "expired"), expires=-1)  # RabbitMQ drops it by itself
        (work.si("chain", "1") | work.si("chain", "2") | work.si("chain", "3")).delay()
        group(work.si("group", str(n)) for n in range(3)).delay()
        chord([work.si("chord", str(n)) for n in range(3)], work.si("chord", "body")).delay()
        self.assertEqual([self.store.peek(customer).pending for customer in ("chain", "group", "chord")], [1, 3, 3])
        self.work()
        await_that("all are served", lambda: len([note for note in self.notes() if note.startswith("work")]) == 10)
        for customer, number in (("chain", 3), ("group", 3), ("chord", 4), ("expired", 1)):
            self.await_done(customer, number)
        self.assertNotIn("work expired", self.notes())


class OnRabbitMQ(Workers, unittest.TestCase):
    broker = RABBITMQ

    def test_the_first_levels_are_served_first(self) -> None:
        for n in range(30):
            self.documents.work.delay("archive", f"photo-{n}")
        self.documents.plain.delay("untold")  # which names no customer
        self.documents.work.delay("bakery", "invoice")
        self.work("-c", "1")
        await_that("all are served", lambda: len(self.notes()) == 63)
        served = [note.split()[1] for note in self.notes() if note.startswith("work")]
        self.assertLess(served.index("invoice"), 5, served)
        self.await_done("archive", 30)
