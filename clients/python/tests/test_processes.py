"""Forks, threads, signals, cancellations and event loops."""

import asyncio
import linecache
import os
import subprocess
import sys
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

import redis
import redis.asyncio

import docpriority
from docpriority._course import Unsent

from .support import HOST, LONG, PORT, Loop, Proxy, needs_redis, prefix


@needs_redis
class Forks(unittest.TestCase):
    def test_a_child_has_connections_of_its_own(self) -> None:
        own = prefix()
        store = docpriority.Store(redis.Redis(HOST, int(PORT)), prefix=own, timeout=LONG)
        self.addCleanup(store.close)
        self.assertEqual(store.next("acme").count, 0)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                counts = [store.next("acme").count for _ in range(100)]
                os.write(writing, repr(counts).encode())
            finally:
                os._exit(0)
        counts = [store.next("acme").count for _ in range(100)]
        os.waitpid(child, 0)
        os.close(writing)
        with os.fdopen(reading) as told:
            counts += eval(told.read())
        self.assertEqual(sorted(counts), list(range(-200, 0)))
        self.assertEqual(store.next("acme").count, -201)

    def test_a_child_does_not_wait_for_its_parents_locks(self) -> None:
        store = docpriority.Store(redis.Redis(HOST, int(PORT)), prefix=prefix(), timeout=LONG)
        self.addCleanup(store.close)
        store.next("acme")
        pool = next(iter(store._threads._own_pools().values()))
        with pool._lock:  # as another thread of the parent may hold it
            child = os.fork()
            if child == 0:
                try:
                    os._exit(0 if store.next("acme").count == -1 else 1)
                finally:
                    os._exit(2)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)

    def test_a_store_that_nobody_closes_leaves_nothing_open(self) -> None:
        program = (
            "import docpriority, redis, sys\n"
            "for _ in range(2): docpriority.Store(redis.Redis(sys.argv[1], int(sys.argv[2])), timeout=60).next('acme')\n"
            "store = docpriority.Store(redis.Redis(sys.argv[1], int(sys.argv[2])), timeout=60)\n"
            "store.next('acme')"
        )
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        ran = subprocess.run(
            [sys.executable, "-X", "dev", "-c", program, HOST, PORT], env=environment, capture_output=True, text=True
        )
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))


class Interruption(Exception):
    """What a handler of signals raises: Celery's soft time limit, Ctrl-C."""


@needs_redis
class Threads(unittest.TestCase):
    def setUp(self) -> None:
        pool = redis.ConnectionPool(host=HOST, port=int(PORT), max_connections=1)
        self.store = docpriority.Store(redis.Redis(connection_pool=pool), prefix=prefix(), timeout=LONG)
        self.addCleanup(self.store.close)
        self.pool: Any = self.store._threads._pool(None)

    def test_an_exception_of_a_signals_handler_loses_no_connection(self) -> None:
        self.store.next("acme")
        for dials in (False, True):
            line = 1
            while self.interrupted(line, dials):
                line += 1
                self.assertEqual(self.pool._shelf._in_use.items(), [])
                self.store.next("acme")  # within its timeout
            self.assertGreater(line, 50)
            self.assertEqual(len(self.pool._waiting), 0)

    def interrupted(self, line: int, dials: bool) -> bool:
        """Interrupts a call at one of the lines it runs; the first is 1. Reports whether
        there are so many."""
        left = line

        def trace(frame: Any, event: str, _: Any) -> Any:
            nonlocal left
            # Between a lock and its "with" a signal is not handled.
            line_of_code = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
            if event == "line" and not line_of_code.startswith("with "):
                left -= 1
                if left == 0:
                    raise Interruption
            return trace

        if dials:
            self.pool._shelf.drop_free()
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            self.store.next("acme")
        except Interruption:
            pass
        finally:
            sys.settrace(before)
        return left <= 0

    def test_a_connection_that_comes_too_late_for_one_is_another_ones(self) -> None:
        connection = self.pool.take(time.monotonic() + LONG)
        with ThreadPoolExecutor(2) as threads:
            soon = time.monotonic() + 0.2
            first = threads.submit(self.pool.take, soon)
            while not self.pool._waiting and not first.done():
                pass
            second = threads.submit(self.pool.take, time.monotonic() + LONG)
            while len(self.pool._waiting) < 2 and not first.done():
                pass
            with self.pool._lock:
                self.pool.give(connection)
                while time.monotonic() < soon:
                    pass
            self.assertIs(second.result(), connection)
            self.assertIsInstance(first.exception(), Unsent)
        self.pool.give(connection)

    def test_who_waits_no_more_is_not_woken_in_place_of_another(self) -> None:
        connection = self.pool.take(time.monotonic() + LONG)
        with ThreadPoolExecutor(2) as threads:
            first = threads.submit(self.pool.take, time.monotonic() + LONG)
            while not self.pool._waiting:
                pass
            second = threads.submit(self.pool.take, time.monotonic() + 0.1)
            self.assertIsInstance(second.exception(), Unsent)
            self.pool.give(connection)
            self.assertIs(first.result(), connection)
        self.pool.give(connection)

    def test_who_gets_no_thread_for_a_dial_does_not_wait(self) -> None:
        deadline = time.monotonic() + LONG
        with mock.patch("_thread.start_new_thread", side_effect=RuntimeError("can't start new thread")):
            with self.assertRaises(Unsent) as raised:
                self.pool.take(deadline)
        self.assertIn("can't start new thread", str(raised.exception))
        self.assertLess(time.monotonic(), deadline)


@needs_redis
class Tasks(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.proxy = Proxy((HOST, int(PORT)))
        self.store = docpriority.AsyncStore(redis.asyncio.Redis.from_url(self.proxy.url), prefix=prefix(), timeout=LONG)

    async def asyncTearDown(self) -> None:
        await self.store.close()
        self.proxy.close()

    async def test_a_call_that_was_cancelled_leaves_no_answer_to_others(self) -> None:
        await self.store.next("others")
        self.proxy.fault = "hold"
        call = asyncio.ensure_future(self.store.next_n("acme", 1000))
        await self.counted("acme", -999)
        call.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await call
        self.proxy.fault = ""
        others = asyncio.ensure_future(self.store.next("others"))
        await self.counted("others", -1)
        self.proxy.release()  # the answer to acme comes before any that is yet to come
        self.assertEqual((await others).count, -1)

    async def counted(self, customer: str, count: int) -> None:
        server = redis.Redis(HOST, int(PORT))
        while server.get(self.store.key(customer)) != b"%d" % count:
            await asyncio.sleep(0)
        server.close()

    async def test_a_connection_that_a_cancelled_call_was_to_have_is_another_ones(self) -> None:
        await self.store.next("acme")
        pool = self.store._tasks._pool(None)
        deadline = time.monotonic() + LONG
        taken = [await pool.take(deadline) for _ in range(self.store._own.most_connections)]
        first, second = (asyncio.ensure_future(pool.take(deadline)) for _ in range(2))
        await asyncio.sleep(0)
        pool.give(taken.pop())
        first.cancel()  # in the moment in which it is woken
        taken.append(await second)
        for connection in taken:
            pool.give(connection)

    async def test_a_connection_that_comes_too_late_for_one_is_another_ones(self) -> None:
        await self.store.next("acme")
        pool = self.store._tasks._pool(None)
        asyncio.get_running_loop().slow_callback_duration = LONG
        deadline = time.monotonic() + LONG
        taken = [await pool.take(deadline) for _ in range(self.store._own.most_connections)]
        soon = time.monotonic() + 0.2
        first, second = asyncio.ensure_future(pool.take(soon)), asyncio.ensure_future(pool.take(deadline))
        await asyncio.sleep(0)
        while time.monotonic() < soon:  # the event loop stands still
            pass
        pool.give(taken.pop())
        with self.assertRaises(Unsent):
            await first
        taken.append(await second)
        for connection in taken:
            pool.give(connection)

    async def test_a_call_that_waits_and_is_cancelled_keeps_nobody_waiting(self) -> None:
        waiting = [asyncio.ensure_future(self.store.next("acme")) for _ in range(200)]
        await asyncio.sleep(0)
        for call in waiting[::2]:
            call.cancel()
        counts = [call for call in await asyncio.gather(*waiting, return_exceptions=True) if not isinstance(call, BaseException)]
        self.assertGreaterEqual(len(counts), 100)
        await self.store.next("acme")


@needs_redis
class Loops(unittest.TestCase):
    def test_a_second_event_loop_begins_anew(self) -> None:
        store = self.store()

        async def count() -> int:
            return (await store.next("acme")).count

        async def count_and_close() -> int:
            async with store:
                return await count()

        loop = asyncio.new_event_loop()
        self.assertEqual(loop.run_until_complete(count()), 0)
        self.assertEqual(asyncio.run(count_and_close()), -1)
        loop.close()

    def test_two_event_loops_have_their_own_connections_and_keep_them(self) -> None:
        name = f"loops-{os.getpid()}"
        store = self.store(client_name=name)
        server = redis.Redis(HOST, int(PORT))
        self.addCleanup(server.close)
        loops = [Loop(), Loop()]
        for loop in loops:
            self.addCleanup(loop.close)
            self.addCleanup(loop.run, store.close())
        for n in range(20):
            self.assertEqual(loops[n % 2].run(store.next("acme")).count, -n)
        self.assertEqual(sum(1 for other in server.client_list() if other["name"] == name), 2)

    def test_an_event_loop_that_was_closed_is_forgotten(self) -> None:
        store = self.store()

        async def count() -> None:
            await store.next("acme")
            (pool,) = store._tasks._own_pools().values()
            await pool.close()

        for _ in range(5):
            asyncio.run(count())
        self.assertEqual(len(store._tasks._pools), 1)

    def store(self, **settings: Any) -> docpriority.AsyncStore:
        async def made() -> docpriority.AsyncStore:  # some versions want a loop for that
            client = redis.asyncio.Redis(host=HOST, port=int(PORT), **settings)
            return docpriority.AsyncStore(client, prefix=prefix(), timeout=LONG)

        return asyncio.run(made())


if __name__ == "__main__":
    unittest.main()
