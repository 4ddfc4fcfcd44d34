"""Calls that tasks of asyncio make, and their connections."""

from __future__ import annotations

import asyncio
import select
import time
from queue import Empty
from typing import Any, Callable, TypeVar, Union
from weakref import WeakKeyDictionary

import redis.asyncio

from ._classify import Unanswered, Unsent
from ._course import Address, Commands, Steps
from ._pool import Calling, Link, Pool

T = TypeVar("T")

_ROUNDS = 5  # of the event loop, until what has arrived is read


class _Link(Link):
    async def connect(self) -> None:
        try:
            await super().connect()
        except BaseException:
            self.close()
            raise
        self.connection.socket_timeout = None  # a call ends by its own deadline

    def is_open(self) -> bool:
        reader, writer = self.connection._reader, self.connection._writer
        if reader.at_eof() or writer.transport.is_closing():
            return False
        sock = writer.get_extra_info("socket")
        if sock is None or not hasattr(select, "poll"):
            return True
        poll = select.poll()  # because the event loop may not know yet
        poll.register(sock, select.POLLIN)
        return not poll.poll(0)

    async def exchange(self, commands: Commands, deadline: float) -> Any:
        exchange = asyncio.ensure_future(super().exchange(commands, deadline))
        try:
            await _wait(exchange, deadline)
            return exchange.result() if exchange.done() else Unanswered("no answer came in time")
        finally:
            exchange.cancel()

    def close(self) -> None:
        connection = self.connection
        writer, connection._reader, connection._writer = connection._writer, None, None
        if writer is not None:
            writer.transport.abort()


class Tasks(Calling):
    """Makes calls, each in the task that makes it. Connections belong to one event loop."""

    new_queue = asyncio.Queue
    link_class = _Link

    def __init__(self, client: Any, timeout: float) -> None:
        super().__init__(client, timeout, redis.asyncio)
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Address, Pool]] = WeakKeyDictionary()
        self._connecting: set[asyncio.Future[None]] = set()

    async def run(self, steps: Steps[T]) -> T:
        return await self._run(steps)

    def pools(self) -> dict[Address, Pool]:
        return self._by_loop.setdefault(asyncio.get_running_loop(), {})

    def start(self, run: Callable[[Link], Any], link: Link) -> None:
        connecting = asyncio.ensure_future(run(link))
        self._connecting.add(connecting)
        connecting.add_done_callback(self._connecting.discard)

    async def get(self, queue: Any, deadline: float) -> Union[Link, Unsent]:
        getting: asyncio.Future[Union[Link, Unsent]] = asyncio.ensure_future(queue.get())
        try:
            await _wait(getting, deadline)
        except asyncio.CancelledError:
            if not getting.cancel():
                queue.put_nowait(getting.result())
            raise
        if getting.cancel():
            raise Empty
        return getting.result()

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        """Ends the connections of this event loop."""
        loop = asyncio.get_running_loop()
        for pool in self._by_loop.pop(loop, {}).values():
            pool.close()
        connecting = [task for task in self._connecting if task.get_loop() is loop]
        for task in connecting:
            task.cancel()
        await asyncio.gather(*connecting, return_exceptions=True)


async def _wait(future: asyncio.Future[Any], deadline: float) -> None:
    """Waits until a future is done, at most until a deadline."""
    await asyncio.wait([future], timeout=max(deadline - time.monotonic(), 0))
    for _ in range(_ROUNDS):  # a loop that was busy has not read yet what came in time
        if not future.done():
            await asyncio.sleep(0)
