"""Pools of redis-py, made from the caller's client, and the two ways to send a try on them.

A store has separate pools, so that it neither changes the caller's client nor depends on its settings: they send
nothing twice, wait no longer than the store's timeout, and decode nothing. Addresses, TLS, logins and Sentinels are
the client's.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import redis
import redis.asyncio
import redis.asyncio.cluster
import redis.asyncio.retry
import redis.asyncio.sentinel
import redis.cluster
import redis.retry
import redis.sentinel
from redis.asyncio.client import Pipeline as AsyncPipeline
from redis.backoff import NoBackoff
from redis.client import Pipeline
from redis.exceptions import RedisError, ResponseError

from ._classify import Failure, Refused, Unanswered, Unsent, failure_of
from ._course import Address, Nodes, Steps, Try

T = TypeVar("T")

_MOST_CONNECTIONS = 50  # to one server, unless the client's own pool has fewer

# Settings that repeat or delay commands, read or decode differently, or belong to the original pool.
_DROPPED = (
    "retry", "retry_on_error", "retry_on_timeout", "health_check_interval", "decode_responses", "encoding", "encoding_errors",
    "cache", "cache_config", "connection_pool",
)  # fmt: skip

_IS_OLD = redis.VERSION < (5, 3)
_COMMAND = ("EVALSHA",) if _IS_OLD else ()  # old versions of get_connection require it, and new ones warn about it

# What redis-py raises; all but the first two if the connection or its event loop is closed meanwhile. Other
# exceptions, such as a time limit raised in a signal handler, are not caught.
_ERRORS = (RedisError, OSError, AttributeError, ValueError, RuntimeError)


class _Pools:
    """Makes the pools of one store."""

    def __init__(self, client: Any, timeout: float, package: Any) -> None:
        self._client = client  # a Sentinel's pool lives as long as its client
        self.timeout = timeout
        self._package = package
        self._template: Any = None
        self.nodes = Nodes()
        cluster = package.cluster.RedisCluster
        pipelines = (Pipeline, AsyncPipeline, redis.cluster.ClusterPipeline)
        if isinstance(client, package.Redis) and not isinstance(client, pipelines):
            self._template = client.connection_pool
            self._connection_class, self._settings = self._template.connection_class, self._adapted(self._template.connection_kwargs)
        elif isinstance(client, cluster) and not isinstance(client, pipelines):
            self._of_cluster(client)
        else:
            raise TypeError(f"a store takes a Redis or RedisCluster of {package.__name__}, not {type(client).__module__}.{type(client).__qualname__}")

    def _of_cluster(self, client: Any) -> None:
        nodes = [*client.nodes_manager.startup_nodes.values(), *client.get_nodes()]
        template = nodes[-1] if self._package is redis.asyncio else client.get_redis_connection(nodes[-1]).connection_pool
        self._connection_class, self._settings = template.connection_class, self._adapted(template.connection_kwargs)
        # The cluster's own function may have a node answer as a replica, which does not name the master.
        self._settings.pop("redis_connect_func", None)
        callers_function: Any = getattr(client, "user_on_connect_func", None)
        if callers_function is not None:

            def connected(connection: Any) -> None:
                connection.on_connect()
                callers_function(connection)

            self._settings["redis_connect_func"] = connected

        def hint(key: bytes) -> Address:
            try:
                node = client.get_node_from_key(key)
            except Exception:  # it has asked no node yet, or none has the slot
                return None
            return None if node is None else (node.host, int(node.port))

        self.nodes = Nodes(hint, [(node.host, int(node.port)) for node in nodes])

    def _adapted(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        adapted = {name: value for name, value in settings.items() if name not in _DROPPED and "maint" not in name and not name.startswith("orig_")}
        retry = redis.asyncio.retry.Retry if self._package is redis.asyncio else redis.retry.Retry
        adapted.update(retry=retry(NoBackoff(), 0), socket_timeout=self.timeout)
        if "path" not in adapted:  # a Unix socket has no such setting in redis-py 4
            adapted["socket_connect_timeout"] = self.timeout
        if redis.VERSION >= (5,):  # with RESP 3, redis-py 8 does not check whether a connection was closed
            adapted["protocol"] = 2
        return adapted

    def pool(self, address: Address) -> Any:
        """Returns a new pool of connections to an address."""
        template, settings = self._template, self._settings
        if isinstance(template, self._package.sentinel.SentinelConnectionPool):
            return type(template)(
                template.service_name, template.sentinel_manager, connection_class=self._connection_class, is_master=template.is_master,
                check_connection=template.check_connection, **settings,
            )  # fmt: skip
        if address is not None:
            settings = {**settings, "host": address[0], "port": address[1]}
        most = min(_MOST_CONNECTIONS, getattr(template, "max_connections", _MOST_CONNECTIONS))
        return self._package.BlockingConnectionPool(most, self.timeout, connection_class=self._connection_class, **settings)


def _unsent(error: BaseException) -> Unsent:
    """Says why there is no connection. For asyncio's errors, redis-py 4 gives only a number."""
    cause, text = error.__cause__ or error.__context__, str(error)
    why = os.strerror(cause.errno) if isinstance(cause, OSError) and cause.errno and cause.errno > 0 else ""
    return Unsent(text if why in text else f"{text} {why}", error)


def _is_usable(step: Try, failure: Failure) -> bool:
    """Reports whether a connection is usable after an error: it owes no reply, and a new one could not do better by
    finding another server or by being let in."""
    return len(step.commands) == 1 and isinstance(failure, Refused) and isinstance(failure.cause, ResponseError) and "READONLY " not in failure.text


class Threads(_Pools):
    """Makes calls, each in the thread of its caller."""

    def __init__(self, client: Any, timeout: float) -> None:
        super().__init__(client, timeout, redis)
        self._by_address: dict[Address, Any] = {}

    def run(self, steps: Steps[T]) -> T:
        try:
            step = next(steps)
            while True:
                time.sleep(step.pause)
                step = steps.send(self._try(step))
        except StopIteration as end:
            result: T = end.value
            return result

    def _try(self, step: Try) -> Any:
        pool = self._by_address.get(step.address) or self._by_address.setdefault(step.address, self.pool(step.address))
        try:
            connection = pool.get_connection(*_COMMAND)
        except _ERRORS as error:
            return _unsent(error)
        usable = False  # it may owe an answer, which must not be the next caller's
        try:
            if time.monotonic() >= step.deadline:
                usable = True  # nothing was sent on it
                return Unsent("no connection in time")
            try:
                for command in step.commands:
                    connection.send_command(*command)
            except redis.ConnectionError as error:  # so a part of the commands was not sent
                return _unsent(error)
            for _ in step.commands:
                # The socket's timeout begins anew with each byte.
                if not connection.can_read(timeout=max(step.deadline - time.monotonic(), 0.001)):
                    return Unanswered("no answer came in time")
                reply = connection.read_response()
            usable = True
            return reply
        except _ERRORS as error:
            failure = failure_of(error)
            usable = _is_usable(step, failure)
            return failure
        finally:
            if not usable:
                with suppress(*_ERRORS):  # close may disconnect it meanwhile
                    connection.disconnect()
            pool.release(connection)

    def close(self) -> None:
        for pool in list(self._by_address.values()):
            with suppress(*_ERRORS):  # a call in progress may disconnect it too
                pool.disconnect()


class Tasks(_Pools):
    """Makes calls, each in the task that makes it. Connections belong to one event loop."""

    def __init__(self, client: Any, timeout: float) -> None:
        super().__init__(client, timeout, redis.asyncio)
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Address, Any]] = WeakKeyDictionary()

    async def run(self, steps: Steps[T]) -> T:
        try:
            step = next(steps)
            while True:
                if step.pause:
                    await asyncio.sleep(step.pause)
                step = steps.send(await self._try(step))
        except StopIteration as end:
            result: T = end.value
            return result

    async def _try(self, step: Try) -> Any:
        sent: list[bool] = []
        try:
            return await asyncio.wait_for(self._exchange(step, sent), step.deadline - time.monotonic())
        except asyncio.TimeoutError as error:
            return Unanswered("no answer came in time", error) if sent else Unsent("no connection in time", error)

    async def _exchange(self, step: Try, sent: list[bool]) -> Any:
        pools = self._by_loop.setdefault(asyncio.get_running_loop(), {})
        if step.address not in pools:
            pools[step.address] = self.pool(step.address)
        pool = pools[step.address]
        try:
            connection = await pool.get_connection(*_COMMAND)
        except _ERRORS as error:
            return _unsent(error)
        usable = False  # it may owe an answer, which must not be the next caller's
        try:
            sent.append(True)  # a stream does not say how much was sent
            for command in step.commands:
                await connection.send_command(*command)
            for _ in step.commands:
                reply = await connection.read_response()
            usable = True
            return reply
        except _ERRORS as error:
            failure = failure_of(error)
            usable = _is_usable(step, failure)
            return failure
        finally:
            try:
                if not usable:  # also if the call was cancelled
                    with suppress(Exception):
                        await connection.disconnect()
            finally:  # its place becomes free even if the call is cancelled only now
                await pool.release(connection)

    async def close(self) -> None:
        for pool in self._by_loop.pop(asyncio.get_running_loop(), {}).values():
            await pool.disconnect()
