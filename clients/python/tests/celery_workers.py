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

    def test_each_task_keeps_its_books(self) -> None:
        tasks, work = self.documents, self.documents.work
        last = ("fail", "ignore", "reject", "endless", "lost")  # whatever becomes of them, it is the last word
        for name in last:
            getattr(tasks, name).delay(name)
        tasks.app.send_task("nobody.knows", kwargs={"customer": "unknown"})
        work.apply_async(("expired", "expired"), expires=-1)  # RabbitMQ drops it by itself
        tasks.reject.delay("requeued", requeue=True)
        tasks.lost_once.delay("lost once")
        tasks.replaced.delay("replaced")
        for n in range(4):
            work.delay("flaky", f"flaky {n}")
        tasks.flaky.delay("flaky", "one")
        (work.si("chain", "1") | work.si("chain", "2") | work.si("chain", "3")).delay()
        group(work.si("group", str(n)) for n in range(3)).delay()
        chord([work.si("chord", str(n)) for n in range(3)], work.si("chord", "body")).delay()
        pending = {**dict.fromkeys((*last, "unknown", "expired", "requeued", "lost once", "replaced", "chain"), 1), "flaky": 5, "group": 3, "chord": 3}
        self.assertEqual({customer: self.store.peek(customer).pending for customer in pending}, pending)
        self.work()
        await_that("all are served", lambda: sum(note.startswith("work") for note in self.notes()) == 15)
        for customer, counted in {**pending, "chain": 3, "chord": 4}.items():
            self.await_done(customer, counted)
        notes = self.notes()
        self.assertEqual((notes.count("again pending 1"), notes.count("work replacement of priority 0"), notes.count("work expired")), (2, 1, 0))
        tried = [note for note in notes if note.startswith("try")]
        (priority,) = {note.split()[-1] for note in tried}
        self.assertEqual(len(tried), 3)
        self.assertEqual(tried[1:], [f"try {n} pending 1 priority {priority}" for n in (1, 2)])  # the first one may have met others
        self.assertNotIn(priority, ("None", "0"))


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
