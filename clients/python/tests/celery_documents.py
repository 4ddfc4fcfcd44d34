"""The app that the tests of docpriority.celery publish to, and whose workers they start and
kill. It is told by the environment where its servers are."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import redis
from celery import Celery
from celery.exceptions import Ignore, Reject
from kombu import Queue

import docpriority
from docpriority.celery import PublishedTask, install

BROKER, QUEUE = os.environ["BROKER"], os.environ["QUEUE"]

server = redis.Redis.from_url(os.environ["SERVER"])
store = docpriority.Store(redis.Redis.from_url(os.environ["SERVER"]), prefix=QUEUE, timeout=60)

app = Celery("documents", broker=BROKER)
app.conf.task_default_queue = QUEUE
if BROKER.startswith("redis"):
    app.conf.broker_transport_options = {
        "queue_order_strategy": "priority", "priority_steps": list(range(store.last)), "visibility_timeout": int(os.environ.get("VISIBILITY", "3600")),
    }
    app.conf.result_backend = os.environ["SERVER"]  # which chords need
else:
    app.conf.task_queues = [Queue(QUEUE, queue_arguments={"x-max-priority": store.last - 1})]
app.conf.worker_prefetch_multiplier = 1
app.conf.task_acks_late = True
app.conf.broker_connection_retry_on_startup = True


def customer_of(task: PublishedTask) -> Any:
    return task.argument("customer")


install(app, store, customer_of)


def note(what: str) -> None:
    """Writes down what happened, for the test that waits for it."""
    server.rpush(QUEUE + "-notes", what)


@app.task
def work(customer: str, document: str, seconds: float = 0) -> str:
    note(f"begin {document}")
    time.sleep(seconds)
    note(f"work {document}")
    return customer


@app.task
def plain(document: str) -> None:
    note(f"work {document}")


@app.task(bind=True, max_retries=2)
def flaky(self: Any, customer: str, document: str) -> None:
    """Fails always: twice it is tried again."""
    priority = self.request.delivery_info["priority"]
    note(f"try {self.request.retries} pending {store.peek(customer).pending} priority {priority}")
    raise self.retry(countdown=0.1, exc=RuntimeError("told to fail"))


@app.task
def fail(customer: str) -> None:
    raise RuntimeError("told to fail")


@app.task
def ignore(customer: str) -> None:
    raise Ignore


@app.task(bind=True)
def reject(self: Any, customer: str, requeue: bool = False) -> None:
    pending = store.peek(customer).pending
    again = server.incr(f"{QUEUE}-{self.request.id}") > 1
    if requeue and not again:
        raise Reject("told to", requeue=True)
    if requeue:
        note(f"again pending {pending}")
    else:
        raise Reject("told to", requeue=False)


@app.task(bind=True)
def replaced(self: Any, customer: str) -> Any:
    return self.replace(plain.si(f"replacement of priority {self.request.delivery_info['priority']}"))


@app.task(time_limit=1)
def endless(customer: str) -> None:
    note("begin endless")
    time.sleep(3600)


@app.task(bind=True)
def lost(self: Any, customer: str) -> None:
    """Takes its process with it, as the kernel does where memory ends."""
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(reject_on_worker_lost=True, bind=True)
def lost_once(self: Any, customer: str) -> None:
    if server.incr(f"{QUEUE}-{self.request.id}") == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    note(f"again pending {store.peek(customer).pending}")
