"""What a store takes from the caller's client: how to connect, and to whom.

A store has connections of its own. So no setting of the client makes a call count twice,
and no other user of the client's pool makes it late. What says how to connect is the
client's: addresses, passwords, TLS, Sentinels, the database, callbacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable, Tuple

import redis
import redis.asyncio
import redis.asyncio.cluster
import redis.cluster
from redis.asyncio.client import Pipeline as AsyncPipeline
from redis.client import Pipeline

from ._nodes import Address, ClusterNodes, Nodes, OneServer

MOST_CONNECTIONS = 50
"""To one server, unless the client's own pool has fewer."""

DIAL_SECONDS = 1.0
"""How long each step of a new connection may take, if calls may not take longer anyway.
A call does not wait for that: the connection is for those that come after it."""

# Settings that would send something again, wait longer than a call may, or change the
# caller's pool.
_DROPPED = (
    "retry",
    "retry_on_error",
    "retry_on_timeout",
    "health_check_interval",
    "socket_connect_timeout",
    "cache",
    "cache_config",
)


@dataclass(frozen=True)
class Client:
    """How to connect, and to whom."""

    nodes: Nodes
    most_connections: int
    dial_seconds: float
    _connection_class: Callable[..., Any]
    _settings: Mapping[str, Any]

    def connection(self, address: Address) -> Any:
        """Returns a connection of redis-py that is not connected yet."""
        settings: dict[str, Any] = {**self._settings, "socket_timeout": self.dial_seconds}
        if "path" not in settings:  # a Unix socket has no such setting in redis-py 4
            settings["socket_connect_timeout"] = self.dial_seconds
        if address is not None:
            settings["host"], settings["port"] = address
        connection = self._connection_class(**settings)
        # Since redis-py 8 they speak the third protocol, in which a server may say what it
        # was not asked. Scripts need none of that.
        if getattr(connection, "protocol", 2) == 2:
            return connection
        return self._connection_class(**{**settings, "protocol": 2})

    def where(self, address: Address) -> str:
        """Returns an address for a person."""
        settings = self._settings
        if address is None and "path" in settings:
            return str(settings["path"])
        if address is None and "connection_pool" in settings:
            return f"the master {getattr(settings['connection_pool'], 'service_name', '')!r}"
        host, port = address or (settings.get("host", "localhost"), settings.get("port", 6379))
        return f"{host}:{port}"


def client_of(client: Any, timeout: float) -> Client:
    """Returns what there is to know of a client of redis-py."""
    if isinstance(client, redis.Redis) and not isinstance(client, Pipeline):
        return _of_pool(client.connection_pool, timeout)
    if isinstance(client, redis.cluster.RedisCluster) and not isinstance(client, redis.cluster.ClusterPipeline):
        node = next(iter(client.get_nodes()))
        pool = client.get_redis_connection(node).connection_pool
        return _of_cluster(client, pool.connection_class, pool.connection_kwargs, timeout)
    raise TypeError(f"a Store takes a redis.Redis or a redis.cluster.RedisCluster, not {_name_of(client)}")


def async_client_of(client: Any, timeout: float) -> Client:
    """Returns what there is to know of an asyncio client of redis-py."""
    if isinstance(client, redis.asyncio.Redis) and not isinstance(client, AsyncPipeline):
        return _of_pool(client.connection_pool, timeout)
    if isinstance(client, redis.asyncio.cluster.RedisCluster):
        node = next(iter(client.nodes_manager.startup_nodes.values()))
        return _of_cluster(client, node.connection_class, node.connection_kwargs, timeout)
    raise TypeError(f"an AsyncStore takes a redis.asyncio.Redis or RedisCluster, not {_name_of(client)}")


def _of_pool(pool: Any, timeout: float) -> Client:
    most = min(MOST_CONNECTIONS, getattr(pool, "max_connections", MOST_CONNECTIONS))
    settings = _kept(pool.connection_kwargs)
    return Client(OneServer(), most, max(timeout, DIAL_SECONDS), pool.connection_class, settings)


def _of_cluster(client: Any, connection_class: Any, settings: Mapping[str, Any], timeout: float) -> Client:
    manager = client.nodes_manager

    def hint(key: bytes) -> Address:
        try:
            node = client.get_node_from_key(key)
        except Exception:  # it has not asked any node yet, or nobody has the slot
            return None
        return None if node is None else (node.host, int(node.port))

    def as_it_is(host: str, port: int) -> Tuple[str, int]:
        return host, port

    def connected(connection: Any) -> None:
        connection.on_connect()
        client.user_on_connect_func(connection)

    # That of the cluster itself may have a node answer as a replica, which knows only what
    # is old, and never says who is the master.
    kept = _kept(settings)
    kept.pop("redis_connect_func", None)
    if getattr(client, "user_on_connect_func", None) is not None:
        kept["redis_connect_func"] = connected

    known = {(node.host, int(node.port)) for node in [*manager.startup_nodes.values(), *client.get_nodes()]}
    nodes = ClusterNodes(known, hint, getattr(manager, "remap_host_port", as_it_is))
    return Client(nodes, MOST_CONNECTIONS, max(timeout, DIAL_SECONDS), connection_class, kept)


def _kept(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in settings.items()
        if name not in _DROPPED and "maint" not in name and not name.startswith("orig_")
    }


def _name_of(client: Any) -> str:
    return f"{type(client).__module__}.{type(client).__qualname__}"
