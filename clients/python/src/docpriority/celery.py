"""Gives the tasks of a Celery app their priority, and calls ``done`` when they end.

    >>> from docpriority.celery import install
    >>> install(app, store, lambda task: task.argument("customer"))

The README has the three settings, and says when a document is submitted and done. The message carries the customer in
its headers. Celery's own tasks (``celery.chord_unlock`` and so on) are left alone.

Nothing here makes publishing or a task fail: errors of the store or ``customer_of`` are logged. If the store cannot
decide, the level is 1. Only Celery's soft time limit passes through.
"""

from __future__ import annotations

import functools
import inspect
import logging
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Callable, Optional
from weakref import WeakValueDictionary

from celery import Celery, signals, states
from celery.exceptions import Reject, SoftTimeLimitExceeded
from celery.local import Proxy
from celery.utils.imports import instantiate
from celery.utils.time import maybe_iso8601, maybe_make_aware

from ._calls import LONGEST_DELAY, checked_cost
from ._errors import PriorityError
from ._keys import Document, bytes_of
from ._queues import celery_priority, rabbitmq_priority, rabbitmq_quorum_priority
from ._store import AsyncStore, Store

__all__ = ["PublishedTask", "install"]

_HEADER = "docpriority"  # of a message, with its customer
_DEFAULT_STEPS = (0, 3, 6, 9)  # Celery's
_MAPS = ("celery.map", "celery.starmap")  # the messages of map, starmap and chunks

_log = logging.getLogger("docpriority")


@dataclass(frozen=True)
class PublishedTask:
    """A task that is about to be published."""

    name: str
    id: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    headers: Mapping[str, Any]
    """Celery's headers, and those passed to ``apply_async``."""
    _run: Optional[Callable[..., Any]] = field(default=None, repr=False)

    def argument(self, name: str) -> Any:
        """Returns an argument of the task by its name, or its default. Raises ``LookupError`` if there is none. An
        argument that was not passed by its name is found only if the task is registered in this process."""
        if name in self.kwargs:
            return self.kwargs[name]
        if self._run is None:
            raise LookupError(f"the task is not registered in this process: pass {name!r} by its name")
        bound = inspect.signature(self._run).bind_partial(*self.args)
        bound.apply_defaults()
        if name not in bound.arguments:
            raise LookupError(f"the task has no argument {name!r}")
        return bound.arguments[name]


def install(
    app: Any,
    store: Store,
    customer_of: Callable[[PublishedTask], Any],
    *,
    cost_of: Optional[Callable[[PublishedTask], Any]] = None,
) -> None:
    """Makes ``store`` decide the priorities of a Celery app's tasks. Call it once where the app is created, in
    publishers and in workers. It sends nothing, and reads no setting of the app before a task is published.

    ``customer_of`` names the customer whose document a task is: a ``str``; None, or an empty name, if it is none.
    ``cost_of`` returns how much work a task is, as in ``Store.submit``; 0 or None if unknown.
    """
    if isinstance(app, Proxy):  # as celery.current_app is
        app = app._get_current_object()
    if isinstance(store, AsyncStore):
        raise TypeError("Celery needs a docpriority.Store, not an AsyncStore")
    for what, wanted in (("customer_of", customer_of), ("cost_of", cost_of or customer_of)):
        if not callable(wanted):
            raise TypeError(f"{what} must be a function, not {type(wanted).__name__}")
    if getattr(app, "_docpriority", None) is not None:
        raise ValueError(f"docpriority is installed in {app!r} already")
    app._docpriority = _Integration(app, store, customer_of, cost_of)


def _amqp_of(app: Any) -> Any:
    """Makes an app's AMQP, by which Celery publishes whatever it publishes. A function of this module, because an app
    may be pickled; a copy has no levels."""
    integration = getattr(app, "_docpriority", None)
    amqp = instantiate(Celery.amqp_cls if integration is None else integration.amqp_cls, app=app)
    if integration is not None:
        integration.join(amqp)
    return amqp


class _Integration:
    def __init__(self, app: Any, store: Store, customer_of: Callable[[PublishedTask], Any], cost_of: Optional[Callable[[PublishedTask], Any]]) -> None:
        self._app = app
        self._store = store
        self._customer_of = customer_of
        self._cost_of = cost_of
        self._begun: dict[str, float] = {}  # tasks that this process is working on
        self._republished: set[str] = set()  # those of them that will come again
        # Tasks of this worker's main process, which learns when a pool process was lost with its task.
        self._received: WeakValueDictionary[str, Any] = WeakValueDictionary()
        self._warned: set[str] = set()

        # Not by signals: Celery swallows what their receivers raise, also a time limit.
        self.amqp_cls, app.amqp_cls = app.amqp_cls, _amqp_of
        if "amqp" in vars(app):
            self.join(app.amqp)
        for signal, receiver in (
            (signals.task_received, self._on_received),
            (signals.task_prerun, self._on_prerun),
            (signals.task_postrun, self._on_postrun),
            (signals.task_failure, self._on_failure),
            (signals.task_revoked, self._on_revoked),
            (signals.task_unknown, self._on_message_refused),
            (signals.task_rejected, self._on_message_refused),
            (signals.worker_process_shutdown, self._on_process_shutdown),
        ):
            # Without a uid, Celery treats the methods of two objects as one receiver.
            signal.connect(receiver, weak=False, dispatch_uid=("docpriority", id(self)))

    # Where tasks are published.

    def join(self, amqp: Any) -> None:
        """Has an AMQP publish by this object."""
        amqp.send_task_message = self.publish

    @functools.cached_property
    def _send(self) -> Any:
        """Celery's own way to send a message, made only now because it reads the app's settings."""
        return self._app.amqp._create_task_sender()

    def publish(self, producer: Any, name: str, message: Any, **options: Any) -> Any:
        """Sends the message of a task, with its customer and its priority."""
        headers = options["headers"] = dict(options.get("headers") or {})
        headers.pop(_HEADER, None)  # the caller may have copied another task's headers
        task_id = message.headers.get("id")
        request = self._request(task_id) if task_id else None
        if request is not None:  # the task republishes itself
            if request.get(_HEADER) is not None:
                headers[_HEADER] = request.get(_HEADER)
                options["priority"] = (request.delivery_info or {}).get("priority")
            sent = self._send(producer, name, message, **options)
            self._republished.add(task_id)
            return sent
        customer = ""
        try:
            customer, document = self._customer_and_document(name, message, headers)
            if customer:
                level = self._submit(customer, name, document)
                headers[_HEADER] = customer
                options["priority"] = self._priority(level, options)
            return self._send(producer, name, message, **options)
        except BaseException:  # also a time limit
            if customer:
                self._done(customer, task_id)
            raise

    def _customer_and_document(self, name: str, message: Any, headers: Mapping[str, Any]) -> tuple[str, Document]:
        """Returns whose document a message is, or an empty name."""
        if name.startswith("celery.") and name not in _MAPS:
            return "", Document("")
        why, level = "task_protocol 1 has no room for a customer", logging.WARNING
        if message.headers.get("id"):
            try:
                tasks = self._tasks_of(name, message, {**message.headers, **headers})
                customers = {self._customer_of(task) for task in tasks}
                for customer in customers:
                    if not isinstance(customer, (str, type(None))):  # a header cannot carry bytes
                        raise TypeError(f"customer_of must return a str or None, not {type(customer).__name__}: write str(customer.id)")
                if len(customers) > 1:
                    raise ValueError(f"it has documents of {len(customers)} customers: publish a message for each")
                customer = customers.pop() if customers else None
                if customer:
                    bytes_of("customer", customer)
                    cost = checked_cost(sum(self._cost_of(task) or 0 for task in tasks) if self._cost_of is not None else 0)
                    return customer, Document(message.headers["id"], cost, self._delay_of(message))
                why, level = "customer_of names no customer", logging.INFO if customer is None else logging.WARNING
            except SoftTimeLimitExceeded:
                raise
            except Exception as error:
                why = f"{type(error).__name__}: {error}"
        self._warn(f"the task {name} has no level: {why}", name, level)
        return "", Document("")

    def _tasks_of(self, name: str, message: Any, headers: Mapping[str, Any]) -> list[PublishedTask]:
        """Returns the tasks that a message stands for: several in one of map, starmap and chunks."""
        args, kwargs = message.body[:2]
        calls = [(args, kwargs)]
        if name in _MAPS:
            name, calls = kwargs["task"]["task"], [(item if name == "celery.starmap" else (item,), {}) for item in kwargs["it"]]
        run = getattr(self._app.tasks.get(name), "run", None)
        return [PublishedTask(name, message.headers["id"], args, kwargs, headers, run) for args, kwargs in calls]

    def _delay_of(self, message: Any) -> timedelta:
        """Returns how much later a task is due, by its countdown or eta."""
        eta = maybe_iso8601(message.headers.get("eta"))
        delay: timedelta = maybe_make_aware(eta) - self._app.now() if eta else timedelta()
        return min(max(delay, timedelta()), timedelta(seconds=LONGEST_DELAY))

    def _submit(self, customer: str, name: str, document: Document) -> int:
        try:
            return self._store.submit(customer, document.id, cost=document.cost, delay=document.delay).level
        except PriorityError as error:
            _log.warning("docpriority: level 1 for the task %s[%s]: %s", name, document.id, error)
            return 1

    def _request(self, task_id: Any) -> Any:
        """Returns the request of a task if this thread is working on it."""
        task = self._app.current_worker_task
        return task.request if task is not None and task.request.id == task_id else None

    @functools.cached_property
    def _broker(self) -> str:
        with self._app.connection_for_write() as connection:
            return str(connection.transport.driver_type)

    def _priority(self, level: int, options: Mapping[str, Any]) -> Optional[int]:
        """Returns the priority of a level in a message's queue, or None if the queue has no priorities."""
        if self._broker == "redis":
            options = self._app.conf.broker_transport_options or {}
            steps = (options.get("priority_steps") or _DEFAULT_STEPS)[:10]  # kombu has no more
            if len(steps) < self._store.last:
                self._warn(f"priority_steps in broker_transport_options has {len(steps)} steps, which {self._store.last} levels share")
            return celery_priority(level, self._store.last, steps)
        if self._broker != "amqp":
            self._warn(f"a broker with {self._broker} has no priorities: tasks are not ordered")
            return None
        queue, name = options.get("queue"), options.get("routing_key")
        if queue is None and options.get("exchange") is None:
            queue = self._app.amqp.default_queue
        elif queue is None or isinstance(queue, str):
            queue, name = self._app.amqp.queues.get(queue or name), queue or name
        arguments = getattr(queue, "queue_arguments", None) or {}
        if arguments.get("x-queue-type") == "quorum":
            return rabbitmq_quorum_priority(level, self._store.last)
        max_priority = getattr(queue, "max_priority", None) or arguments.get("x-max-priority")
        if not max_priority:
            self._warn(f"the queue {getattr(queue, 'name', name)} has no x-max-priority: its tasks are not ordered")
            return None
        return rabbitmq_priority(level, self._store.last, max_priority)

    def _warn(self, why: str, once: str = "", level: int = logging.WARNING) -> None:
        """Logs a line once, or one for a name."""
        if (once or why) not in self._warned:
            self._warned.add(once or why)
            _log.log(level, "docpriority: %s", why)

    # Where tasks are worked on.

    def _on_prerun(self, sender: Any, task_id: str, **_: Any) -> None:
        if sender.app is self._app and sender.request.get(_HEADER) is not None:
            self._begun[task_id] = time.monotonic()

    def _on_postrun(self, sender: Any, task_id: str, retval: Any = None, state: Optional[str] = None, **_: Any) -> None:
        customer = sender.request.get(_HEADER)
        if sender.app is not self._app or customer is None:
            return
        begun = self._begun.pop(task_id, None)
        if task_id in self._republished:
            self._republished.discard(task_id)
            return
        requeued = state == states.REJECTED and isinstance(retval, Reject) and retval.requeue
        interrupted = state is None and not isinstance(sys.exc_info()[1], SoftTimeLimitExceeded)  # by the end of the process
        if sender.acks_late and (requeued or interrupted):
            return
        self._done(customer, task_id, timedelta(seconds=time.monotonic() - begun) if begun is not None else timedelta())

    # Where a worker's main process reports tasks that its pool does not run.

    def _on_received(self, sender: Any, request: Any, **_: Any) -> None:
        if sender.app is self._app and request.request_dict.get(_HEADER) is not None:
            self._received[request.id] = request

    def _on_failure(self, sender: Any, task_id: str, **_: Any) -> None:
        if sender.app is not self._app or sender.request.id == task_id:  # in the second case _on_postrun follows
            return
        request = self._received.pop(task_id, None)
        if request is not None:  # its pool process was lost, or killed at the time limit
            self._done(request.request_dict[_HEADER], task_id)

    def _on_revoked(self, sender: Any, request: Any, **_: Any) -> None:
        customer = request.get(_HEADER)
        if sender.app is self._app and customer is not None:
            self._done(customer, request.id)

    def _on_message_refused(self, sender: Any, message: Any, **_: Any) -> None:
        headers = message.headers or {}
        if sender.app is self._app and headers.get(_HEADER) is not None:
            self._done(headers[_HEADER], headers["id"])

    def _on_process_shutdown(self, **_: Any) -> None:
        """A pool process ends without running a program's exit handlers."""
        self._store.close()

    def _done(self, customer: str, document: str, took: timedelta = timedelta()) -> None:
        try:
            self._store.done(customer, document, took)
        except PriorityError as error:
            _log.warning("docpriority: the task %s of %s stays pending until its lease ends: %s", document, customer, error)
        except BaseException as error:
            if isinstance(error, SoftTimeLimitExceeded):  # which comes once, and which Celery swallows when a task has ended
                self._done(customer, document, took)
            raise
