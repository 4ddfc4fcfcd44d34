"""A flood on Celery, set as README.md says, for BenchmarkFlood. It publishes what its input
lists, has a worker of four processes work on it, and prints when each task was published and
begun."""

import json
import os
import subprocess
import sys
import threading
import time

import redis
from celery import Celery

import docpriority
from docpriority.celery import install

URL = os.environ["REDIS"]
flood = json.load(sys.stdin) if __name__ == "__main__" else {"loads": None}
app = Celery("tests.celery_flood", broker=URL)
store = docpriority.Store(redis.Redis.from_url(URL), timeout=10, policy=docpriority.Policy(loads=flood["loads"]))
install(app, store, lambda task: task.argument("customer"))
app.conf.broker_transport_options = {"queue_order_strategy": "priority", "priority_steps": list(range(store.last))}
app.conf.worker_prefetch_multiplier = 1
app.conf.task_acks_late = True
app.conf.task_ignore_result = True


def note(what: str, document: str) -> None:
    if not document.startswith("warm"):
        os.write(1, f"{what} {document} {time.time() * 1000}\n".encode())


@app.task(name="work")
def work(customer: str, document: str) -> None:
    note("begun", document)
    time.sleep(0.01)


def publish(documents: list, begin: float) -> None:
    for customer, document, milliseconds in documents:
        time.sleep(max(0, begin + milliseconds / 1000 - time.monotonic()))
        work.delay(customer, document)
        note("queued", document)


if __name__ == "__main__":
    options = ["-c", "4", "-l", "error", "--without-mingle", "--without-gossip", "--without-heartbeat"]
    worker = subprocess.Popen([sys.executable, "-m", "celery", "-q", "-A", "tests.celery_flood", "worker", *options])
    for number in range(20):  # so that each process has its connections before the flood
        work.delay("warm-up", f"warm-{number}")
    while store.peek("warm-up").pending:
        time.sleep(0.1)
    customers: dict = {}
    for arrival in flood["arrivals"]:
        customers.setdefault(arrival[0], []).append(arrival)
    begin = time.monotonic()
    for documents in customers.values():
        threading.Thread(target=publish, args=(documents, begin)).start()
    worker.wait()
