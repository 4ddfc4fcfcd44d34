"""The ways to reach a server: a cluster, a Sentinel, TLS, users with few rights."""

import json
import os
import unittest
import warnings
from typing import Any

import redis
import redis.asyncio
import redis.asyncio.cluster
import redis.asyncio.sentinel
import redis.cluster
import redis.sentinel
from redis.crc import key_slot

from docpriority import PriorityError

from .support import HOST, LONG, PORT, StoreCase, eventually, needs_redis, prefix


def needs(variable: str) -> Any:
    return unittest.skipUnless(os.environ.get(variable) or os.environ.get("CI"), f"{variable} is not set; go test ./clients/python sets it")


def address(variable: str) -> tuple[str, int]:
    host, _, port = os.environ[variable].partition(":")
    return host, int(port)


@needs("REDIS_CLUSTER")
class Clusters(StoreCase):
    """Of three masters."""

    def setUp(self) -> None:
        super().setUp()
        host, port = address("REDIS_CLUSTER")
        self.client = redis.cluster.RedisCluster(host=host, port=port)
        self.addCleanup(self.client.close)

    def cluster_store(self, **options: Any) -> Any:
        host, port = address("REDIS_CLUSTER")
        client = lambda: self.client  # noqa: E731
        if self.asynchronous:
            client = lambda: redis.asyncio.cluster.RedisCluster(host=host, port=port)  # noqa: E731
        return self.open(client=client, timeout=LONG, **options)

    def test_no_node_is_asked_to_answer_as_a_replica(self) -> None:
        host, port = address("REDIS_CLUSTER")
        package: Any = redis.asyncio.cluster if self.asynchronous else redis.cluster
        called: list[Any] = []
        options: dict[str, Any] = {} if self.asynchronous else {"redis_connect_func": called.append}
        client = lambda: package.RedisCluster(host=host, port=port, read_from_replicas=True, **options)  # noqa: E731
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # later versions of redis-py say it with another argument
            store = self.open(client=client, timeout=LONG)
        called.clear()
        before = self.readonly_calls()
        store.next("acme")
        self.assertEqual((self.readonly_calls(), len(called)), (before, len(options)))
        store.reset("acme")

    def test_a_member_reports_and_follows_policies_wherever_their_keys_are(self) -> None:
        own = prefix()
        self.client.set(f"{own}:{{control}}:policies", '{"version":1,"changed":1,"policies":{"thresholds":[0]}}')
        store = self.cluster_store(prefix=own, join=True)
        store.next("acme")
        (member,) = eventually(lambda: self.client.zrange(f"{own}:{{fleet}}:members", 0, -1), bool)
        report = f"{own}:{{fleet}}:{member.decode()}"
        eventually(lambda: self.client.get(report), lambda text: text and json.loads(text)["following"]["version"] == 1)
        self.assertEqual(store.next("acme").level, 2)
        store.reset("acme")
        store.close()
        self.assertIsNone(self.client.get(report))

    def readonly_calls(self) -> int:
        calls = 0
        for node in self.client.get_primaries():
            with redis.Redis(node.host, node.port) as asked:
                calls += asked.info("commandstats").get("cmdstat_readonly", {}).get("calls", 0)
        return calls

    def test_a_slot_that_moves_loses_no_count_and_doubles_none(self) -> None:
        store = self.cluster_store(overrides=True)
        key = store.keys("acme").count
        slot = key_slot(key)
        source = self.client.get_node_from_key(key)
        target = next(node for node in self.client.get_primaries() if node.name != source.name)
        at_source, at_target = (redis.Redis(node.host, node.port) for node in (source, target))
        own_id, target_id = (client.execute_command("CLUSTER MYID") for client in (at_source, at_target))
        counts = [store.next("acme").count]
        store.submit("acme", "document")
        at_target.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", own_id)
        at_source.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", target_id)
        counts.append(store.next("acme").count)  # while the source still has it, and an override could be at the target
        with redis.Redis(target.host, target.port, single_connection_client=True) as asking:
            asking.execute_command("ASKING")
            asking.set(store.keys("acme").override, "=7")
        decisions = []
        for key in (store.keys("acme").count, store.keys("acme").pending):
            decisions += [store.next("acme"), store.submit("acme", key)]
            at_source.execute_command("MIGRATE", target.host, target.port, key, 0, 5000)
        decisions += [store.next("acme"), store.submit("acme", "last")]  # the source answers ASK
        self.assertEqual([(decision.level, decision.rule_level) for decision in decisions], [(7, 1)] * 2 + [(7, 2)] * 4)
        counts += [decision.count for decision in decisions[::2]]
        for client in (at_target, at_source):
            client.execute_command("CLUSTER", "SETSLOT", slot, "NODE", target_id)
        counts.append(store.next("acme").count)  # the source answers MOVED
        counts.append(store.next("acme").count)  # the store has learned where it is
        self.assertEqual(counts, [-n for n in range(len(counts))])
        self.client.delete(store.keys("acme").override)
        store.reset("acme")
        at_source.close()
        at_target.close()


@needs("REDIS_SENTINEL")
class Sentinels(StoreCase):
    def test_the_master_that_a_sentinel_names_counts_also_after_a_failover(self) -> None:
        package: Any = redis.asyncio.sentinel if self.asynchronous else redis.sentinel
        seen = []

        def client() -> Any:
            sentinel = package.Sentinel([address("REDIS_SENTINEL")], socket_timeout=1)
            seen.append(sentinel)  # because its pools hold it only weakly
            return sentinel.master_for("counts")

        store = self.open(client=client)
        asked = redis.Redis(*address("REDIS_SENTINEL"))
        self.addCleanup(asked.close)
        self.until_counted(store)
        before = asked.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "counts")
        while True:
            try:
                asked.execute_command("SENTINEL", "FAILOVER", "counts")
                break
            except redis.ResponseError:  # the one before is under way yet
                pass
        while asked.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "counts") == before:
            pass
        self.until_counted(store)

    def until_counted(self, store: Any) -> None:
        while True:
            try:
                store.next("acme")
                return
            except PriorityError:
                pass


@needs("REDIS_TLS")
class TLS(StoreCase):
    def test_a_store_speaks_tls_as_its_client_does(self) -> None:
        package: Any = redis.asyncio if self.asynchronous else redis
        certificate, key = os.environ["REDIS_TLS_FILES"].split(":")
        given = {"ssl": True, "ssl_ca_certs": certificate, "ssl_certfile": certificate, "ssl_keyfile": key}
        host, port = address("REDIS_TLS")
        store = self.open(client=lambda: package.Redis(host=host, port=port, **given), timeout=LONG)
        self.assertEqual([store.next("acme").count for _ in range(20)], [-n for n in range(20)])


# As docs/redis.md has them.
RIGHTS = (
    "on resetkeys ~test-*:{*}:count ~test-*:{*}:pending ~test-*:{*}:override -@all +evalsha +script|load "
    "+get +set +decr +decrby +incrby +pexpire +pexpireat +pttl +unlink +time +zadd +zcard +zcount +zmscore +zrange +zrem"
)


@needs_redis
class Rights(StoreCase):
    def test_the_rights_of_the_docs_are_enough(self) -> None:
        name, server = f"user-{self.asynchronous}", self.redis()
        server.execute_command("ACL", "SETUSER", name, "reset", ">secret", *RIGHTS.split())
        self.addCleanup(server.execute_command, "ACL", "DELUSER", name)
        store = self.open(f"redis://{name}:secret@{HOST}:{PORT}", timeout=LONG, overrides=True)
        store.next("acme")
        store.submit("acme", "document")
        store.done("acme", "document")
        store.peek("acme")
        store.reset("acme")
