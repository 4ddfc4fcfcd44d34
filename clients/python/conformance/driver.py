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
import traceback
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any, Callable

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

    if cluster:
        client = package.cluster.RedisCluster.from_url(url)
    else:
        retry, errors = package.retry.Retry(redis.backoff.NoBackoff(), 5), [redis.ConnectionError, redis.TimeoutError]
        client = package.Redis.from_url(url, decode_responses=True, retry=retry, retry_on_timeout=True, retry_on_error=errors)
    return docpriority.AsyncStore(client, **options) if asynchronous else docpriority.Store(client, **options)


def policy_of(fields: dict[str, Any]) -> docpriority.Policy:
    given: dict[str, Any] = {name: fields[name] for name in ("thresholds", "loads", "turns", "in_order") if name in fields}
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


async def answer(store: Any, request: dict[str, Any], threads: ThreadPoolExecutor) -> dict[str, Any]:
    if request["do"] == "key":
        keys = store.keys(base64.b64decode(request["customer"]))
        return {"key": base64.b64encode(vars(keys)[request["kind"]]).decode()}
    if request["do"] == "script":
        script = store.script(request["name"], "anybody")
        return {"script": script, "sha1": hashlib.sha1(script.encode()).hexdigest()}
    call = call_of(request)
    if isinstance(store, docpriority.AsyncStore):
        return answer_of(request["do"], await call(store))
    return answer_of(request["do"], await asyncio.get_running_loop().run_in_executor(threads, call, store))


async def close(store: Any, threads: ThreadPoolExecutor) -> None:
    if isinstance(store, docpriority.AsyncStore):
        await store.close()
    elif store is not None:
        await asyncio.get_running_loop().run_in_executor(threads, store.close)


async def main() -> None:
    loop, threads, store = asyncio.get_running_loop(), ThreadPoolExecutor(64), None
    calls: set[asyncio.Task[None]] = set()

    async def serve(store: Any, request: dict[str, Any]) -> None:
        try:
            fields = await answer(store, request, threads)
        except Exception as error:
            fields = error_of(error)
        print(json.dumps({"id": request["id"], **fields}), flush=True)

    while line := await loop.run_in_executor(None, sys.stdin.readline):
        request = json.loads(line)
        if request["do"] == "open":
            await close(store, threads)
            try:
                store, fields = open_store(request), {}
            except Exception as error:
                fields = error_of(error)
            print(json.dumps({"id": request["id"], **fields}), flush=True)
        else:
            calls = {call for call in calls if not call.done()} | {asyncio.ensure_future(serve(store, request))}
    await asyncio.gather(*calls)
    await close(store, threads)


if __name__ == "__main__":
    asyncio.run(main())
