"""What a store does when the network, the server or the caller does harm."""

import asyncio
import itertools
import json
import os
import socket
import sys
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable
from unittest import mock

import redis
import redis.asyncio

import docpriority
from docpriority import NotCountedError, OutcomeUnknownError, _course, _lock
from docpriority._calling import Threads, _finish
from docpriority._course import Deadline
from docpriority._pool import Pool
from docpriority._report import Window

from .support import HOST, LONG, PORT, SHORT, Loop, Proxy, StoreCase, eventually, needs_redis, prefix, stubborn


@needs_redis
class LostAnswers(StoreCase):
    def test_a_connection_that_was_closed_meanwhile_is_not_used(self) -> None:
        proxy = self.proxy()
        store = self.open(proxy.url, timeout=LONG)
        for count in range(120):  # beyond the 100 that redis-py 8 makes in a pool
            self.assertEqual(store.next("acme").count, -count)
            proxy.close_connections()
            self.redis().ping()  # by now this process has got the end of the connection

    def test_connections_that_were_closed_while_idle_are_replaced_at_once(self) -> None:
        proxy = self.proxy()
        store, idle = self.open(proxy.url, timeout=LONG), 10
        store.submit("acme", "document")
        store.peek("acme")
        proxy.hold()
        with ThreadPoolExecutor(idle) as threads:
            calls = [threads.submit(store.peek, "acme") for _ in range(idle)]
            eventually(lambda: len(proxy.clients), lambda number: number >= idle)
            proxy.release()
            for call in calls:
                eventually(call.exception, lambda error: True)
        proxy.cut_all()
        with mock.patch.multiple(_course, _FIRST_PAUSE=2 * LONG, _LONGEST_PAUSE=2 * LONG):
            store.done("acme", "document")
        self.assertEqual(store.peek("acme").pending, 0)

    def test_connecting_may_take_longer_than_a_call(self) -> None:
        proxy, package = self.proxy(), redis.asyncio if self.asynchronous else redis
        proxy.hold_greetings()
        store = self.open(client=lambda: package.from_url(proxy.url, client_name="test"), timeout=SHORT)
        self.assertRaises(NotCountedError, store.peek, "acme")

        def count() -> Any:
            proxy.greet()  # nobody who comes later
            try:
                return store.peek("acme").count
            except NotCountedError:
                return None

        self.assertEqual(eventually(count, lambda count: count is not None), 0)

    def test_a_done_reaches_redis_once_there_is_a_connection(self) -> None:
        proxy, package, own = self.proxy(), redis.asyncio if self.asynchronous else redis, prefix()
        self.open(prefix=own, timeout=LONG).submit("acme", "document")
        proxy.hold_greetings()
        store = self.open(client=lambda: package.from_url(proxy.url, client_name="test"), timeout=1, fallback=True, prefix=own)
        self.assertIsNone(store.done("acme", "document"))
        with ThreadPoolExecutor(1) as thread:
            closing = thread.submit(store.close)
            eventually(lambda: proxy.greet() or closing.done(), bool)
            closing.result()
        self.assertNotIn(b"document", self.redis().zrange(f"{own}:{{acme}}:pending", 0, -1))

    def test_a_reply_that_comes_drop_by_drop_is_none(self) -> None:
        server = self.scripted("answered")
        server.reply, server.drips = b"*2\r\n:1\r\n:" + b"0" * 1_000_000, True
        store = self.open(server.url, timeout=SHORT)
        self.assertRaises((NotCountedError, OutcomeUnknownError), store.next, "acme")

    def test_first_calls_load_a_script_once(self) -> None:
        store, server = self.open(timeout=LONG), self.redis()
        server.script_flush()
        server.config_resetstat()
        with ThreadPoolExecutor(20) as threads:
            list(threads.map(store.next, map(str, range(20))))
        loads = [ran["calls"] for command, ran in server.info("commandstats").items() if command.startswith("cmdstat_script")]
        self.assertEqual(loads, [1])
        self.assertNotIn("errorstat_NOSCRIPT", server.info("errorstats"))

    def test_a_script_that_is_not_known_is_loaded(self) -> None:
        store, server = self.open(timeout=LONG), self.redis()
        server.config_resetstat()
        for count in range(3):
            server.script_flush()
            self.assertEqual(store.next("acme").count, -count)
        ran = server.info("commandstats")
        self.assertNotIn("cmdstat_eval", ran)  # which Redis 7.4 evicts
        self.assertEqual(ran["cmdstat_evalsha"]["calls"], 5)

    def test_a_script_that_can_neither_be_loaded_nor_sent_along_is_not_counted(self) -> None:
        server = self.scripted("NOSCRIPT No matching script.")
        server.loads = "NOPERM this user has no permissions to run the 'script|load' command"
        server.tries.append("NOPERM this user has no permissions to run the 'eval' command")
        store = self.open(server.url, timeout=LONG)
        self.assertRaisesRegex(NotCountedError, "'eval'", store.next, "acme")
        self.assertEqual(server.sent, [b"EVALSHA", b"EVAL"])
        server.loads, server.tries = "lost", ["NOSCRIPT No matching script.", "answered"]
        server.reply = b"*2\r\n:1\r\n:0\r\n"
        self.assertEqual(store.next("acme").count, 0)


@needs_redis
class Outages(StoreCase):
    def test_refused_connections_are_not_counted_and_say_by_whom(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        store = self.open(f"redis://127.0.0.1:{port}", timeout=SHORT)
        with self.assertRaises(NotCountedError) as raised:
            store.next("acme")
        for part in ("next", "{acme}:count", f"127.0.0.1:{port}", "refused"):
            self.assertIn(part, str(raised.exception))
        self.assertIsNotNone(raised.exception.__cause__)

    def test_a_store_that_was_closed_counts_nothing(self) -> None:
        store = self.open(timeout=LONG, fallback=True)
        store.next("acme")
        store.close()
        for _ in range(2):
            with self.assertRaisesRegex(NotCountedError, "closed"):
                store.next("acme")
            store.close()


@needs_redis
class Processes(unittest.TestCase):
    def test_a_child_after_a_fork_has_its_own_connections(self) -> None:
        store = docpriority.Store(redis.Redis(HOST, int(PORT)), prefix=prefix(), timeout=LONG)
        self.addCleanup(store.close)
        self.assertEqual(store.next("acme").count, 0)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(writing, json.dumps([store.next("acme").count for _ in range(100)]).encode())
            finally:
                os._exit(0)
        counts = [store.next("acme").count for _ in range(100)]
        os.waitpid(child, 0)
        os.close(writing)
        with os.fdopen(reading) as written:
            counts += json.load(written)
        self.assertEqual(sorted(counts), list(range(-200, 0)))

    def test_no_free_connection_is_not_counted(self) -> None:
        pool = redis.ConnectionPool(host=HOST, port=int(PORT), max_connections=1)
        store = docpriority.Store(redis.Redis(connection_pool=pool), prefix=prefix(), timeout=SHORT)
        self.addCleanup(store.close)
        store.peek("acme")
        own = store._threads.pools()[None]
        taken = _finish(own.take, Deadline(LONG))
        with self.assertRaisesRegex(NotCountedError, f"no connection to {HOST}:{PORT} in time"):
            store.next("acme")
        own.give(taken)

    def limited(self, call: Callable[[], Any], lines: int) -> bool:
        """Makes a call until so many of its lines have run, and reports whether it has that many."""

        class TimeLimit(Exception):
            """As Celery's, which a handler of signals raises."""

        def trace(frame: Any, event: str, argument: Any) -> Any:
            nonlocal lines
            if "docpriority" not in frame.f_code.co_filename:
                return None
            if event == "line":
                lines -= 1
                if lines == 0:
                    sys.settrace(None)
                    raise TimeLimit
            return trace

        try:
            sys.settrace(trace)
            call()
        except TimeLimit:
            pass
        finally:
            sys.settrace(None)
        return lines <= 0

    def test_an_exception_of_a_signal_leaves_the_store_whole_wherever_it_is_raised(self) -> None:
        pool = redis.ConnectionPool(host=HOST, port=int(PORT), max_connections=2)  # the thread that connects may hold a lost one for a moment
        store = docpriority.Store(redis.Redis(connection_pool=pool), prefix=prefix(), timeout=10)
        self.addCleanup(store.close)
        store.peek("acme")  # makes the script, once for all
        for first in (True, False):  # without a connection, and with one
            for raised in itertools.count(1):
                if first:
                    store._threads._pools.clear()
                if not self.limited(lambda: store.peek("acme"), raised):
                    break
                self.assertEqual(store.next(f"customer {first} {raised}").count, 0)
            self.assertGreater(raised, 50)

    def test_an_exception_of_a_signal_keeps_no_other_thread_waiting(self) -> None:
        store = docpriority.Store(redis.Redis("127.0.0.1", 1), prefix=prefix(), timeout=0.01, fallback=True)
        self.addCleanup(store.close)
        store._calls.window = Window()
        for _ in range(10):
            store.done("acme", "document")
        store._fallback._probe_at = float("inf")  # type: ignore[union-attr]  # memory answers

        def call() -> None:
            store.submit("acme", "document")
            store.done("acme", "document")

        with mock.patch.object(_lock, "_LOST_AFTER", 0.01):
            for raised in itertools.count(1):
                if not self.limited(call, raised):
                    break
                other = threading.Thread(target=call, daemon=True)
                other.start()
                other.join(LONG)
                self.assertFalse(other.is_alive(), raised)
        self.assertGreater(raised, 50)


@needs_redis
class Loops(unittest.IsolatedAsyncioTestCase):
    async def test_a_pause_of_the_event_loop_says_nothing_about_redis(self) -> None:
        asyncio.get_running_loop().set_debug(False)  # which would report each pause
        proxy = Proxy((HOST, int(PORT)))
        self.addCleanup(proxy.close)
        async with docpriority.AsyncStore(redis.asyncio.Redis(port=proxy.port), prefix=prefix(), timeout=2 * SHORT, fallback=True) as store:

            async def degraded() -> Any:
                calls = [asyncio.ensure_future(store.peek(str(n))) for n in range(12)]
                await asyncio.sleep(0)
                time.sleep(3 * SHORT)
                return {state.degraded for state in await asyncio.gather(*calls)}, store.degraded

            self.assertEqual(await degraded(), ({False}, False))
            proxy.hold()
            self.assertEqual(await degraded(), ({True}, False))
            proxy.release()
            self.assertEqual(await degraded(), ({False}, False))

    async def test_a_cancelled_call_leaves_no_answer_to_others(self) -> None:
        client = redis.asyncio.Redis(host=HOST, port=int(PORT))
        async with docpriority.AsyncStore(client, prefix=prefix(), timeout=LONG) as store:
            for n in range(50):
                call = asyncio.ensure_future(store.next("cancelled"))
                for _ in range(n % 10):
                    await asyncio.sleep(0)
                call.cancel()
                await asyncio.wait([call])
                self.assertEqual((await store.next(f"customer {n}")).count, 0)

    def test_loops_that_have_ended_leave_no_connections(self) -> None:
        own, server = prefix(), redis.Redis(HOST, int(PORT))
        self.addCleanup(server.close)
        store = docpriority.AsyncStore(redis.asyncio.Redis(host=HOST, port=int(PORT), client_name=own), prefix=own, timeout=LONG)

        def connections() -> int:
            return sum(client["name"] == own for client in server.client_list())

        loop = Loop()
        self.addCleanup(loop.close)
        loop.run(store.peek("acme"))
        for _ in range(10):
            asyncio.run(store.peek("acme"))
        eventually(connections, lambda number: number <= 2)
        asyncio.run(store.close())
        eventually(connections, lambda number: number == 0)


class Pools(unittest.TestCase):
    def test_a_call_that_gives_up_hands_on_what_it_was_handed(self) -> None:
        class GivesUp(Exception):
            pass

        class Impatient(Threads):
            async def wait(self, waiter: Any, deadline: Deadline) -> None:
                await super().wait(waiter, deadline)
                raise GivesUp

        calling = Impatient(redis.Redis(HOST or "127.0.0.1", int(PORT or 1)), LONG)
        pool = Pool(calling, None)
        link = calling.link_class(calling.connection(None))
        with mock.patch.object(pool, "_begin", lambda: pool.give(link)):
            self.assertRaises(GivesUp, _finish, pool.take, Deadline(LONG))
        self.assertEqual((list(pool._free), list(pool._waiting)), ([link], []))
