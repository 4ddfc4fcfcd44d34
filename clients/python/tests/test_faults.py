"""What a store does when the network, the server or the caller does harm."""

import asyncio
import itertools
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
from docpriority import NotCountedError, _course, _lock
from docpriority._calling import Tasks, _finish
from docpriority._course import Deadline
from docpriority._report import Window

from .support import HOST, LONG, PORT, SHORT, Loop, Proxy, StoreCase, eventually, needs_redis, prefix


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


@needs_redis
class Processes(unittest.TestCase):
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
        client = redis.asyncio.Redis(port=proxy.port, max_connections=2)
        async with docpriority.AsyncStore(client, prefix=prefix(), timeout=2 * SHORT, fallback=True) as store:

            async def degraded() -> Any:
                calls = [asyncio.ensure_future(store.submit(str(n), "document")) for n in range(12)]
                await asyncio.sleep(0)
                time.sleep(3 * SHORT)
                return {decision.degraded for decision in await asyncio.gather(*calls)}, store.degraded

            self.assertEqual(await degraded(), ({False}, False))
            proxy.hold()
            with self.assertLogs("docpriority", "WARNING"):
                self.assertEqual(await degraded(), ({True}, False))
            proxy.release()
            self.assertEqual(await degraded(), ({False}, False))

    def test_calls_that_wait_leave_the_loop_to_others(self) -> None:
        loop, now = asyncio.SelectorEventLoop(), 0.0

        def select(timeout: Any) -> list[Any]:  # time passes while nothing else is to be done
            nonlocal now
            now += timeout or 0
            return []

        async def wait() -> int:
            tasks = Tasks(redis.asyncio.Redis(), 1)
            with mock.patch.object(loop, "call_later", wraps=loop.call_later) as timers:
                await asyncio.gather(*[tasks.until(loop.create_future(), Deadline(1)) for _ in range(200)])
            return timers.call_count

        with mock.patch("time.monotonic", lambda: now), mock.patch.object(loop, "time", lambda: now):
            with mock.patch.object(loop, "_selector", mock.Mock(select=select)):
                self.assertLess(loop.run_until_complete(wait()), 2 * 200)
        loop.close()

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
