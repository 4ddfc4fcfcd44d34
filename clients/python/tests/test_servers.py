"""The ways to reach a server: a Sentinel, TLS. Clusters are for clients/conformance."""

import os
import unittest
from typing import Any

import redis
import redis.asyncio
import redis.asyncio.sentinel
import redis.sentinel

from docpriority import PriorityError

from .support import LONG, StoreCase


def needs(variable: str) -> Any:
    return unittest.skipUnless(os.environ.get(variable) or os.environ.get("CI"), f"{variable} is not set; go test ./clients/python sets it")


def address(variable: str) -> tuple[str, int]:
    host, _, port = os.environ[variable].partition(":")
    return host, int(port)


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
