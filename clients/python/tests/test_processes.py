"""Forks, cancellations and event loops."""

import asyncio
import os
import time
import unittest
import redis
import redis.asyncio

import docpriority

from .support import HOST, LONG, PORT, Proxy, needs_redis, prefix


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
        with pool._changed:  # as another thread of the parent may hold it
            child = os.fork()
            if child == 0:
                try:
                    os._exit(0 if store.next("acme").count == -1 else 1)
                finally:
                    os._exit(2)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)


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
        store = docpriority.AsyncStore(redis.asyncio.Redis(host=HOST, port=int(PORT)), prefix=prefix(), timeout=LONG)

        async def count() -> int:
            return (await store.next("acme")).count

        async def count_and_close() -> int:
            async with store:
                return await count()

        loop = asyncio.new_event_loop()
        self.assertEqual(loop.run_until_complete(count()), 0)
        self.assertEqual(asyncio.run(count_and_close()), -1)
        loop.close()


if __name__ == "__main__":
    unittest.main()
