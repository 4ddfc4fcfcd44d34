"""Connections that redis-py makes by the settings of the caller's client: its addresses, TLS, logins and Sentinels.

A store uses them by itself, so that it neither changes the client nor depends on its settings: nothing is sent twice,
no call waits longer than the store's timeout for a reply that comes drop by drop, and a pool stays whole if the
handler of a signal raises an exception in the middle of a call. How long connecting may take is the client's.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from typing import Any

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

from ._classify import Unsent
from ._course import Address, Nodes

_MOST_CONNECTIONS = 50  # to one server, unless the client's own pool has fewer
_CONNECTING_SECONDS = 5.0  # for each step of connecting, unless the client has a timeout

# Settings that repeat or delay commands, read or decode differently, or belong to the original pool.
_DROPPED = (
    "retry", "retry_on_error", "retry_on_timeout", "health_check_interval", "decode_responses", "encoding", "encoding_errors",
    "cache", "cache_config", "connection_pool",
)  # fmt: skip


class Connections:
    """Makes the connections of one store."""

    connection_class: Any
    most: int  # connections to one server
    _settings: dict[str, Any]

    def __init__(self, client: Any, timeout: float, package: Any) -> None:
        self._client = client  # a Sentinel's pool lives as long as its client
        self.timeout = timeout
        self._package = package
        self.nodes = Nodes()
        cluster = package.cluster.RedisCluster
        pipelines = (Pipeline, AsyncPipeline, redis.cluster.ClusterPipeline)
        if isinstance(client, pipelines) or not isinstance(client, (package.Redis, cluster)):
            raise TypeError(f"a store needs a Redis or RedisCluster of {package.__name__}, not {type(client).__module__}.{type(client).__qualname__}")
        template = self._of_cluster(client) if isinstance(client, cluster) else client.connection_pool
        self.connection_class, self._settings = template.connection_class, self._adapted(template.connection_kwargs)
        self.most = min(_MOST_CONNECTIONS, getattr(template, "max_connections", _MOST_CONNECTIONS))
        if isinstance(client, cluster):
            self._settings["redis_connect_func"] = _on_connect(getattr(client, "user_on_connect_func", None))
        elif isinstance(template, package.sentinel.SentinelConnectionPool):
            # A pool without connections, of which they ask who is the master.
            self._sentinels = type(template)(
                template.service_name, template.sentinel_manager, is_master=template.is_master, check_connection=template.check_connection, **self._settings
            )
            self._settings = self._sentinels.connection_kwargs

    def _of_cluster(self, client: Any) -> Any:
        """Learns the nodes of a cluster, and returns what has the settings of one."""
        nodes = [*client.nodes_manager.startup_nodes.values(), *client.get_nodes()]

        def hint(key: bytes) -> Address:
            try:
                node = client.get_node_from_key(key)
            except Exception:  # it has asked no node yet, or none has the slot
                return None
            return None if node is None else (node.host, int(node.port))

        self.nodes = Nodes(hint, [(node.host, int(node.port)) for node in nodes])
        return nodes[-1] if self._package is redis.asyncio else client.get_redis_connection(nodes[-1]).connection_pool

    def _adapted(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        adapted = {name: value for name, value in settings.items() if name not in _DROPPED and "maint" not in name and not name.startswith("orig_")}
        retry = redis.asyncio.retry.Retry if self._package is redis.asyncio else redis.retry.Retry
        adapted.update(retry=retry(NoBackoff(), 0), socket_timeout=adapted.get("socket_timeout") or _CONNECTING_SECONDS)
        if "path" not in adapted:  # a Unix socket has no such setting in redis-py 4
            adapted["socket_connect_timeout"] = adapted.get("socket_connect_timeout") or adapted["socket_timeout"]
        if "protocol" in inspect.signature(redis.Redis.__init__).parameters:  # a bundled redis-py does not know its version
            adapted["protocol"] = 2
        return adapted

    def connection(self, address: Address) -> Any:
        """Returns a connection that is not open yet."""
        where = {} if address is None else {"host": address[0], "port": address[1]}
        return self.connection_class(**{**self._settings, **where})

    def where(self, address: Address) -> str:
        """Names a server."""
        settings = self._settings
        host, port = address or (settings.get("host", "localhost"), settings.get("port", 6379))
        return str(settings.get("path") or getattr(settings.get("connection_pool"), "service_name", f"{host}:{port}"))


def _on_connect(callers_function: Any) -> Any:
    """Returns the caller's function. The cluster's own may have a node answer as a replica, which does not name the master."""
    if callers_function is None:
        return None

    def connected(connection: Any) -> None:
        connection.on_connect()
        callers_function(connection)

    return connected


def unsent(error: BaseException) -> Unsent:
    """Says why there is no connection. For asyncio's errors, redis-py 4 gives only a number."""
    cause, text = error.__cause__ or error.__context__, str(error)
    why = os.strerror(cause.errno) if isinstance(cause, OSError) and cause.errno and cause.errno > 0 else ""
    return Unsent(text if why in text else f"{text} {why}", error)
