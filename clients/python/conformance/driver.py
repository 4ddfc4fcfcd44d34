"""Drives the Python client for the conformance tests: requests in, answers out, one JSON a line.

    python3 conformance/driver.py

clients/conformance describes both. Calls run at the same time, and answers come in any
order. The client that the store is given would repeat each call: the store must not.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import sys
import threading
import traceback
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any, Callable, Optional

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

import redis
import redis.asyncio
import redis.asyncio.cluster
import redis.asyncio.retry
import redis.backoff
import redis.cluster
import redis.retry

import docpriority

_CLASSES: tuple[tuple[Any, str], ...] = (
    (docpriority.NotCountedError, "not_counted"),
    (docpriority.OutcomeUnknownError, "outcome_unknown"),
    (docpriority.CorruptError, "corrupt"),
    ((TypeError, ValueError), "invalid"),
)


class ThreadedStore:
    """Makes the calls of a Store, each in a thread."""

    def __init__(self, client: Any, options: dict[str, Any]) -> None:
        self.store = docpriority.Store(client, **options)
        self._threads = ThreadPoolExecutor(64)

    def begin(self, call: Callable[[Any], Any]) -> Future[Any]:
        return self._threads.submit(call, self.store)

    def close(self) -> None:
        self._threads.shutdown()
        self.store.close()


class LoopedStore:
    """Makes the calls of an AsyncStore, in an event loop of its own."""

    def __init__(self, make_client: Callable[[], Any], options: dict[str, Any]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._under_way: list[Future[Any]] = []

        async def make() -> docpriority.AsyncStore:
            return docpriority.AsyncStore(make_client(), **options)

        self.store = asyncio.run_coroutine_threadsafe(make(), self._loop).result()

    def begin(self, call: Callable[[Any], Any]) -> Future[Any]:
        future = asyncio.run_coroutine_threadsafe(call(self.store), self._loop)
        self._under_way = [call for call in self._under_way if not call.done()] + [future]
        return future

    def close(self) -> None:
        for call in self._under_way:
            call.exception()
        asyncio.run_coroutine_threadsafe(self.store.close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


def open_store(request: dict[str, Any]) -> Any:
    url, kind = request["url"], request.get("client", "redis")
    options: dict[str, Any] = {}
    for name in ("prefix", "overrides", "accounts", "fallback", "join", "as"):
        if name in request:
            options["name" if name == "as" else name] = request[name]
    for name in ("timeout", "lease"):
        if f"{name}_ms" in request:
            options[name] = timedelta(milliseconds=request[f"{name}_ms"])
    if "policy" in request:
        options["policy"] = policy_of(request["policy"])
    asynchronous, cluster = kind.startswith("asyncio"), kind.endswith("cluster")
    package: Any = redis.asyncio if asynchronous else redis

    def client() -> Any:
        if cluster:
            return package.cluster.RedisCluster.from_url(url)
        retry, errors = package.retry.Retry(redis.backoff.NoBackoff(), 5), [redis.ConnectionError, redis.TimeoutError]
        return package.Redis.from_url(url, decode_responses=True, retry=retry, retry_on_timeout=True, retry_on_error=errors)

    return LoopedStore(client, options) if asynchronous else ThreadedStore(client(), options)


def policy_of(fields: dict[str, Any]) -> docpriority.Policy:
    given = {name: fields[name] for name in ("thresholds", "loads", "turns", "in_order") if name in fields}
    if "reset_interval_ms" in fields:
        given["reset_interval"] = timedelta(milliseconds=fields["reset_interval_ms"])
    if "reset_mode" in fields:
        given["reset_mode"] = docpriority.ResetMode(fields["reset_mode"])
    return docpriority.Policy(**given)


def call_of(request: dict[str, Any]) -> Callable[[Any], Any]:
    """Returns the call of a store that a request asks for."""
    do, customer = request["do"], base64.b64decode(request["customer"])
    documents = [base64.b64decode(document) for document in request.get("documents", ())]
    if do == "next":
        n = request.get("n", 1)
        return lambda store: store.next(customer) if n == 1 else store.next_n(customer, n)
    if do == "done":
        took = timedelta(milliseconds=request.get("took_ms", 0))
        return lambda store: store.done(customer, documents[0], took) if len(documents) == 1 else store.done_n(customer, documents, took)
    if do == "submit":
        costs, delays = (request.get(name) or [0] * len(documents) for name in ("costs", "delays"))
        if not len(costs) == len(delays) == len(documents):
            raise ValueError(f"there are {len(costs)} costs and {len(delays)} delays for {len(documents)} documents")
        delays = [timedelta(milliseconds=delay) for delay in delays]
        if len(documents) == 1:
            return lambda store: store.submit(customer, documents[0], cost=costs[0], delay=delays[0])
        return lambda store: store.submit_n(customer, map(docpriority.Document, documents, costs, delays))
    return lambda store: getattr(store, do)(customer)


def answer_of(do: str, result: Any) -> dict[str, Any]:
    if do == "peek":
        return {"state": fields_of(result)}
    if result is None:  # reset has no result, and a done may have none
        return {}
    results = result if isinstance(result, list) else [result]
    return {"ended" if do == "done" else "decisions": [fields_of(result) for result in results]}


def fields_of(result: Any) -> dict[str, Any]:
    """What is in an answer, under the protocol's names."""
    fields: dict[str, Any] = {}
    for name, value in vars(result).items():
        if isinstance(value, timedelta):
            fields[f"{name}_ms"] = value // timedelta(milliseconds=1)
        elif isinstance(value, docpriority.Rule):
            fields[name] = value.value
        elif isinstance(value, docpriority.Bounds):
            fields.update(vars(value))
        elif value is not None:
            fields[name] = base64.b64encode(value).decode() if isinstance(value, bytes) else value
    return fields


def error_of(error: BaseException) -> dict[str, Any]:
    for classes, name in _CLASSES:
        if isinstance(error, classes):
            return {"error": {"class": name, "message": str(error)}}
    traceback.print_exception(type(error), error, error.__traceback__)
    return {"error": {"class": type(error).__name__, "message": str(error)}}


def ask(store: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Answers what needs no Redis."""
    if request["do"] == "key":
        keys = store.store.keys(base64.b64decode(request["customer"]))
        return {"key": base64.b64encode(vars(keys)[request["kind"]]).decode()}
    script = store.store.script(request["name"], "anybody")
    return {"script": script, "sha1": hashlib.sha1(script.encode()).hexdigest()}


def main() -> None:
    store: Optional[Any] = None
    writing = threading.Lock()

    def write(request: dict[str, Any], answer: dict[str, Any]) -> None:
        with writing:
            print(json.dumps({"id": request["id"], **answer}), flush=True)

    def done(request: dict[str, Any], future: Future[Any]) -> None:
        error = future.exception()
        write(request, answer_of(request["do"], future.result()) if error is None else error_of(error))

    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["do"] == "open":
                store = open_store(request)
                write(request, {})
            elif request["do"] in ("key", "script"):
                write(request, ask(store, request))
            else:
                future = store.begin(call_of(request))  # type: ignore[union-attr]
                future.add_done_callback(lambda future, request=request: done(request, future))
        except Exception as error:
            write(request, error_of(error))
    if store is not None:
        store.close()


if __name__ == "__main__":
    main()
