"""What a store does when the network, the server or the caller does harm."""

import os
import socket
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from unittest import mock

import redis
import redis.asyncio

import docpriority
from docpriority import Ended, NotCountedError, OutcomeUnknownError
from docpriority._sockets import readable

from .support import HOST, LONG, PORT, SHORT, Scripted, Silent, StoreCase, both_kinds, needs_redis


@needs_redis
class LostAnswers(StoreCase):
    def test_a_lost_answer_is_counted_once_whatever_the_client_repeats(self) -> None:
        proxy, server = self.proxy(), self.redis()
        store = self.open(proxy.url, timeout=LONG)
        for _ in range(20):
            before = store.next("acme").count  # there is a connection
            proxy.fault = "cut"
            with self.assertRaises(OutcomeUnknownError):
                store.next("acme")
            proxy.fault = ""
            self.assertEqual(int(server.get(store.key("acme"))), before - 1)

    def test_a_connection_that_was_closed_meanwhile_is_not_used(self) -> None:
        proxy = self.proxy()
        store = self.open(proxy.url, timeout=LONG)
        for count in range(20):
            self.assertEqual(store.next("acme").count, -count)
            proxy.close_connections()
            self.redis().ping()  # the end has come to this process

    def test_what_nobody_asked_for_is_no_answer(self) -> None:
        server = self.scripted("answered")
        store = self.open(server.url, timeout=LONG)
        for count in range(3):
            server.reply = b"*2\r\n:1\r\n:%d\r\n" % -count
            self.assertEqual(store.next("acme").count, -count)
            ((connection, _),) = self.pool(store)._shelf._free
            server.say(b"*2\r\n:9\r\n:-999\r\n")
            self.await_bytes(connection)

    def pool(self, store: Any) -> Any:
        if self.asynchronous:
            return store.store._tasks._pools[self.loop.loop][None]
        return store._threads._own_pools()[None]

    def await_bytes(self, connection: Any) -> None:
        """Waits until something has come into this process."""
        if self.asynchronous:
            while not connection._streams[0]._buffer:
                pass
        else:
            while not readable(connection._socket):
                pass


class Outages(StoreCase):
    def server(self, kind: type, *arguments: Any) -> Any:
        server = kind(*arguments)
        self.addCleanup(server.close)
        return server

    # The servers below never come back, so that a call which returns at all does so by its
    # own deadline.
    def test_a_call_ends_where_the_server_is_silent(self) -> None:
        store = self.open(self.server(Silent).url, timeout=2)
        self.assertRaises(OutcomeUnknownError, store.next, "acme")
        self.assertRaises(OutcomeUnknownError, store.submit, "acme", "document")
        self.assertRaises(NotCountedError, store.peek, "acme")

    def test_a_call_ends_where_an_answer_drips(self) -> None:
        for drop in (b"1", b"*1\r\n", b":1\r\n:"):
            store = self.open(self.server(Silent, drop).url, timeout=2)
            self.assertRaises(OutcomeUnknownError, store.next, "acme")

    def test_a_call_ends_where_nobody_says_hello(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        store = self.open(f"redis://127.0.0.1:{listener.getsockname()[1]}", timeout=0.1)
        for _ in range(18):  # more than may be dialed at a time
            self.assertRaises(NotCountedError, store.next, "acme")

    def test_a_call_ends_where_a_name_is_looked_up_for_ever(self) -> None:
        found = threading.Event()

        def look_up(*arguments: Any, **named: Any) -> Any:
            found.wait()
            raise socket.gaierror("nobody knows")

        with mock.patch("socket.getaddrinfo", look_up):
            store = self.open("redis://redis.example:6379", timeout=SHORT)
            try:
                for _ in range(3):
                    self.assertRaises(NotCountedError, store.next, "acme")
            finally:
                found.set()
                store.close()

    def test_what_is_refused_is_not_counted_and_says_by_whom(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        store = self.open(f"redis://127.0.0.1:{port}", timeout=2)
        with self.assertRaises(NotCountedError) as raised:
            store.next("acme")
        for part in ("next", "{acme}:count", f"127.0.0.1:{port}", "refused"):
            self.assertIn(part, str(raised.exception))
        self.assertIsNotNone(raised.exception.__cause__)

    def test_a_server_that_lets_nobody_in_has_counted_nothing(self) -> None:
        class Crowded(Scripted):
            def serve(self, client: socket.socket) -> None:
                client.sendall(b"-ERR max number of clients reached\r\n")

        store = self.open(self.server(Crowded, ("answered",)).url, timeout=SHORT)
        with self.assertRaises(NotCountedError) as raised:
            store.next("acme")
        self.assertIn("no connection", str(raised.exception))

    def test_who_finds_all_connections_in_use_is_not_counted(self) -> None:
        package: Any = redis.asyncio if self.asynchronous else redis
        server = self.server(Silent)
        pool = lambda: package.ConnectionPool(host="127.0.0.1", port=server.port, max_connections=1)  # noqa: E731
        store = self.open(client=lambda: package.Redis(connection_pool=pool()), timeout=LONG)
        with ThreadPoolExecutor(1) as threads:
            first = threads.submit(store.next, "acme")
            server.asked.wait()
            getattr(store, "store", store)._timeout = SHORT
            with self.assertRaises(NotCountedError) as raised:
                store.next("acme")
            self.assertIn("in use", str(raised.exception))
            server.close()
            self.assertIsInstance(first.exception(), OutcomeUnknownError)

    def test_a_store_that_was_closed_counts_nothing(self) -> None:
        server = self.scripted("answered")
        server.reply = b"*2\r\n:1\r\n:0\r\n"
        store = self.open(server.url, timeout=LONG)
        store.next("acme")
        store.close()
        began = time.monotonic()
        for _ in range(2):
            with self.assertRaises(NotCountedError) as raised:
                store.next("acme")
            self.assertIn("closed", str(raised.exception))
            store.close()
        self.assertLess(time.monotonic() - began, LONG / 2)
        self.assertEqual(len(server.sent), 1)


class Costs(StoreCase):
    def test_only_what_redis_says_was_pending_is_added_to_the_mean(self) -> None:
        server = self.scripted("answered", "ERR the cost is not 0 to 999999", "lost", "answered")
        store = self.open(server.url, timeout=LONG)
        mean = getattr(store, "store", store)._calls._took
        documents, took = ["a", "b", "c"], timedelta(seconds=6)
        server.reply = b"*6\r\n" + b":0\r\n:0\r\n" * 3
        self.assertEqual(store.done_n("acme", documents, took), [])
        self.assertEqual(mean._seen_and_mean, (0, 0))
        self.assertRaises(NotCountedError, store.done_n, "acme", documents, took)
        self.assertEqual(mean._seen_and_mean, (0, 0))
        server.reply = b"*6\r\n:1500\r\n:1\r\n:0\r\n:0\r\n:0\r\n:9\r\n"
        ended = store.done_n("acme", documents, took)  # lost, and sent again
        self.assertEqual(ended, [Ended("a", timedelta(seconds=1.5), 1), Ended("c", timedelta(), 9)])
        self.assertEqual(mean._seen_and_mean, (2, 2.0))
        server.reply = b"*2\r\n:1\r\n:3\r\n"
        self.assertEqual(store.done("acme", "d", took), Ended("d", timedelta(milliseconds=1), 3))
        self.assertEqual(mean._seen_and_mean[0], 3)

    def test_only_what_was_submitted_is_added_to_the_mean(self) -> None:
        server = self.scripted("OOM command not allowed", "lost", "answered")
        store = self.open(server.url, timeout=LONG)
        mean = getattr(store, "store", store)._calls._told
        self.assertRaises(NotCountedError, store.submit, "acme", "a", 5)
        self.assertEqual(mean._seen_and_mean, (0, 0))
        server.reply = b"*8\r\n:1\r\n:1000000\r\n:1\r\n:0\r\n:2\r\n:4000000\r\n:2\r\n:0\r\n"
        store.submit_n("acme", ["a", "b"], [0, 5])  # lost, and sent again
        self.assertEqual(mean._seen_and_mean, (1, 5.0))


@needs_redis
class Company(StoreCase):
    def test_each_answer_is_its_own_callers(self) -> None:
        store = self.open(timeout=LONG)
        with ThreadPoolExecutor(20) as threads:
            decisions = list(threads.map(lambda n: store.next_n(f"customer {n}", n), range(1, 101)))
        self.assertEqual([d[-1].count for d in decisions], [-n for n in range(100)])

    def test_close_ends_the_connections_of_the_store_and_no_others(self) -> None:
        server = self.redis()
        name = f"store-{os.getpid()}-{self.asynchronous}"
        package: Any = redis.asyncio if self.asynchronous else redis
        client = lambda: package.Redis(host=HOST, port=int(PORT), client_name=name)  # noqa: E731
        store = self.open(client=client, timeout=LONG)
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda _: store.next("acme"), range(100)))
        count = lambda: sum(1 for other in server.client_list() if other["name"] == name)  # noqa: E731
        self.assertGreaterEqual(count(), 1)
        store.close()
        while count():  # Redis hears of it in a moment
            pass

    def test_no_setting_of_the_clients_encoding_matters(self) -> None:
        package: Any = redis.asyncio if self.asynchronous else redis
        client = lambda: package.Redis(  # noqa: E731
            host=HOST, port=int(PORT), decode_responses=True, encoding="latin-1", encoding_errors="ignore", db=3
        )
        store = self.open(client=client, timeout=LONG)
        for customer in ("größer}%", b"\xff\x00\r\n"):
            self.assertEqual([store.next(customer).count for _ in range(2)], [0, -1])
            self.assertEqual(store.submit(customer, b"\xff\r\n").pending, 1)
            self.assertEqual(store.submit(customer, b"\xff\r\n").pending, 1)
        other = redis.Redis(HOST, int(PORT), db=3)
        self.assertEqual(other.get(store.key("größer}%")), b"-1")
        other.close()


both_kinds(globals())

if __name__ == "__main__":
    unittest.main()
