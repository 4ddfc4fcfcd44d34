"""docpriority.celery says what a message is, whatever becomes of it. Without a server."""

from __future__ import annotations

import unittest
import warnings
from datetime import timedelta
from typing import Any
from unittest import mock

import docpriority
from docpriority.testing import MemoryStore

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Celery warns where Python is newer
    from celery import Celery, signals
    from celery.exceptions import SoftTimeLimitExceeded
    from kombu import Queue

    from docpriority.celery import install


class Publishing(unittest.TestCase):
    def setUp(self) -> None:
        quiet = warnings.catch_warnings()
        quiet.__enter__()
        self.addCleanup(quiet.__exit__, None, None, None)
        warnings.simplefilter("ignore")

    def app(self, store: Any, broker: str = "redis://127.0.0.1:1", **settings: Any) -> tuple[Any, Any, list[Any]]:
        """Returns an app, a task of it, and the messages that are published."""
        app = Celery("documents", broker=broker, set_as_current=False)
        app.conf.update({"task_default_queue": "documents", "broker_transport_options": {"queue_order_strategy": "priority"}, **settings})

        @app.task(name="work")
        def work(customer: str, document: str = "") -> str:
            return customer

        messages: list[Any] = []

        def publish(producer: Any, body: Any, **properties: Any) -> None:
            if self.refuse:
                raise ConnectionError("told to")
            messages.append(properties)

        patch = mock.patch("kombu.Producer.publish", publish)
        patch.start()
        self.addCleanup(patch.stop)
        self.refuse = False
        install(app, store, lambda task: task.argument("customer"))
        return app, work, messages

    def test_a_level_is_a_step_of_the_broker(self) -> None:
        _, work, messages = self.app(MemoryStore())
        with self.assertLogs("docpriority") as logged:
            for n in range(500):
                work.delay("acme", str(n))
        self.assertEqual(len(logged.output), 1)
        self.assertIn("4 steps, which 9 levels share", logged.output[0])
        self.assertEqual(sorted({message["priority"] for message in messages}), [0, 3, 6, 9])
        work.delay(customer="other")
        self.assertEqual((messages[-1]["priority"], messages[-1]["headers"]["docpriority"]), (0, "other"))

    def test_a_level_is_a_priority_of_the_queue(self) -> None:
        queues = [
            Queue("arguments", queue_arguments={"x-max-priority": 20}), Queue("named", max_priority=8),
            Queue("quorum", queue_arguments={"x-queue-type": "quorum"}), Queue("none"),
        ]
        _, work, messages = self.app(MemoryStore(), "amqp://127.0.0.1:1", task_queues=queues)
        with self.assertLogs("docpriority") as logged:
            for queue in ("arguments", "named", "quorum", "none", "none"):
                work.apply_async(("acme " + queue + str(len(messages)),), queue=queue)
        self.assertEqual([message.get("priority") for message in messages], [20, 8, 12, None, None])
        self.assertEqual(len(logged.output), 1)
        self.assertIn("the queue none has no x-max-priority", logged.output[0])
        _, work, messages = self.app(MemoryStore(), "amqp://127.0.0.1:1", task_queue_max_priority=5)
        work.apply_async(("acme",), queue="made")
        self.assertEqual(messages[-1]["priority"], 5)

    def test_the_level_comes_before_any_other_priority_of_a_document(self) -> None:
        app, work, messages = self.app(MemoryStore(), task_default_priority=6, task_routes={"routed": {"priority": 7}})
        work.apply_async(("passed",), priority=9)
        for customer in ("routed", None):
            app.send_task("routed", kwargs={"customer": customer})
        self.assertEqual([message["priority"] for message in messages], [0, 0, 7])

    def test_what_is_nobodys_is_left_alone(self) -> None:
        store = MemoryStore()
        app, work, messages = self.app(store)
        app.send_task("celery.chord_unlock", kwargs={"customer": "acme"})
        for customer in (None, ""):
            work.apply_async((customer,), headers={"docpriority": "copied"})
        self.assertEqual([(message.get("priority"), "docpriority" in message["headers"]) for message in messages], [(None, False)] * 3)

    def test_a_message_without_a_level_is_logged_once_a_task(self) -> None:
        def untold() -> None: ...

        for publish, settings, why in (
            (lambda app, work: work.delay(None), {}, "INFO:docpriority:docpriority: the task work has no level: customer_of names no customer"),
            (lambda app, work: work.delay(""), {}, "WARNING:docpriority:docpriority: the task work has no level: customer_of names no customer"),
            (lambda app, work: work.delay(5), {}, "customer_of must return a str or None, not int: write str(customer.id)"),
            (lambda app, work: work.delay("x" * 513), {}, "a customer must have 1 to 512 bytes, not 513"),
            (lambda app, work: app.send_task("celery.map", kwargs={"task": work.s(), "it": ["acme", "other"]}), {}, "documents of 2 customers"),
            (lambda app, work: app.task(untold, shared=False).delay(), {}, "the task has no argument 'customer'"),
            (lambda app, work: app.send_task("elsewhere", ("acme",)), {}, "not registered in this process: pass 'customer' by its name"),
            (lambda app, work: work.delay("acme"), {"task_protocol": 1}, "task_protocol 1"),
        ):  # fmt: skip
            app, work, messages = self.app(MemoryStore(), **settings)
            with self.subTest(why), self.assertLogs("docpriority") as logged:
                publish(app, work)
                publish(app, work)
            self.assertEqual((len(logged.output), [message.get("priority") for message in messages]), (1, [None, None]), logged.output)
            self.assertIn(why, logged.output[0])

    def test_whatever_is_published_has_a_level(self) -> None:
        store = MemoryStore()
        app, work, messages = self.app(store)

        def default(document: str, customer: str = "default") -> None: ...

        sends = type(app).send_task
        app.send_task = lambda *args, **options: sends(app, *args, **options)  # as a tool for tracing may
        work.delay("delay")
        app.send_task("elsewhere", kwargs={"customer": "sent"})
        app.task(default, shared=False).delay("document")
        work.chunks([("chunks", "a"), ("chunks", "b"), ("chunks", "c")], 2).delay()
        work.starmap([("starmap", "a")]).delay()
        work.map(["map"]).delay()
        customers = [message["headers"].get("docpriority") for message in messages]
        self.assertEqual(customers, ["delay", "sent", "default", "chunks", "chunks", "starmap", "map"])
        self.assertEqual([store.peek(customer).pending for customer in ("delay", "chunks")], [1, 2])

    def test_a_time_limit_ends_the_task_that_publishes_and_the_document(self) -> None:
        store = mock.create_autospec(docpriority.Store, instance=True, last=9)
        store.submit.side_effect, store.done.side_effect = SoftTimeLimitExceeded, [SoftTimeLimitExceeded, None]
        _, work, messages = self.app(store)
        self.assertRaises(SoftTimeLimitExceeded, work.delay, "acme")
        self.assertEqual((messages, store.done.call_count), ([], 2))  # a limit inside done does not count

    def test_what_could_not_be_published_is_done(self) -> None:
        store = MemoryStore()
        _, work, messages = self.app(store)
        self.refuse = True
        self.assertRaises(Exception, work.delay, "acme")
        self.assertEqual((store.peek("acme").pending, messages), (0, []))

    def test_a_process_of_the_pool_sends_what_it_owes_before_it_ends(self) -> None:
        store = mock.create_autospec(docpriority.Store, instance=True, last=9)
        self.app(store)
        signals.worker_process_shutdown.send(sender=None, pid=1, exitcode=0)
        store.close.assert_called_once_with()

    def test_a_task_goes_on_without_the_store(self) -> None:
        store = mock.create_autospec(docpriority.Store, instance=True, last=9)
        store.submit.side_effect = store.done.side_effect = docpriority.OutcomeUnknownError("told to fail")
        _, work, messages = self.app(store)
        with self.assertLogs("docpriority", "WARNING"):
            work.delay("acme")
        self.assertEqual((messages[-1]["priority"], messages[-1]["headers"]["docpriority"]), (0, "acme"))

    def test_the_cost_and_the_delay_are_told(self) -> None:
        store = mock.create_autospec(docpriority.Store, instance=True, last=9)
        store.submit.return_value = docpriority.Decision(1, 1)
        app = Celery("documents", broker="redis://127.0.0.1:1", set_as_current=False)
        app.conf.broker_transport_options = {"queue_order_strategy": "priority"}
        install(app, store, lambda task: task.kwargs["customer"], cost_of=lambda task: len(task.args))
        with mock.patch("kombu.Producer.publish"):
            sent = app.send_task("pages", (1, 2, 3), {"customer": "acme"}, eta=app.now() + timedelta(days=500))
        store.submit.assert_called_once_with("acme", sent.id, cost=3, delay=timedelta(days=365))  # the longest

    def test_wrong_calls_are_refused(self) -> None:
        store = MemoryStore()
        app = Celery("documents", set_as_current=False)
        self.assertRaises(TypeError, install, app, mock.create_autospec(docpriority.AsyncStore, instance=True), str)
        self.assertRaises(TypeError, install, app, store, "customer")
        install(app, store, str)
        self.assertRaises(ValueError, install, app, store, str)
