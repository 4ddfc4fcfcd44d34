"""Calls that tasks of asyncio make, and their connections."""

from __future__ import annotations

import asyncio
import select
import time
from collections import deque
from dataclasses import replace
from typing import Any, TypeVar, Union
from weakref import WeakKeyDictionary

import redis.asyncio

from ._classify import Unanswered, Unsent, is_usable
from ._connections import Connections, unsent, waited_in_vain
from ._course import Address, Steps, Try
from ._protocol import Commands, Replies, packed

T = TypeVar("T")

_ROUNDS = 5  # of the event loop, until what has arrived is read


class _Link:
    """A connection, once redis-py has made it and has logged in."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    was_idle = False

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def connect(self) -> None:
        connection = self._connection
        try:
            await connection.connect()
            self.reader, self.writer = connection._reader, connection._writer
        except BaseException:
            if connection._writer is not None:
                connection._writer.transport.abort()
            raise
        finally:
            connection._reader = connection._writer = None

    def is_open(self) -> bool:
        """Reports whether the other end has not closed it while it was idle. The event loop may not know yet."""
        if self.reader.at_eof() or self.writer.transport.is_closing():
            return False
        sock = self.writer.get_extra_info("socket")
        if sock is None or not hasattr(select, "poll"):
            return True
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        return not poll.poll(0)

    async def exchange(self, commands: Commands) -> Any:
        """Sends commands and returns the reply to the last, the first that is an error, or why there is none."""
        replies = Replies(len(commands))
        try:
            self.writer.write(packed(commands))
            await self.writer.drain()
            while not replies.add(await self.reader.read(65536)):
                pass
        except (OSError, ValueError, RuntimeError) as error:
            return Unanswered(f"no answer came: {error}", error)  # a stream does not say how much was sent
        return replies.result


class _Pool:
    """Connections to one server, of one event loop. A call that finds none waits for the first that comes: one that
    another call gives back, or a new one, which connects in a task, because connecting may take longer than a call."""

    def __init__(self, factory: Any, most: int) -> None:
        self.factory = factory
        self._most = most
        self._links: set[_Link] = set()
        self._idle: list[_Link] = []
        self._waiting: deque[asyncio.Future[Union[_Link, Unsent]]] = deque()
        self._connecting: set[asyncio.Task[None]] = set()
        self._closed = False

    async def take(self) -> Union[_Link, Unsent]:
        while self._idle:
            link = self._idle.pop()
            if link.is_open():
                link.was_idle = True
                return link
            self.drop(link)
        self._begin()
        waits: asyncio.Future[Union[_Link, Unsent]] = asyncio.get_running_loop().create_future()
        self._waiting.append(waits)
        try:
            return await waits
        except asyncio.CancelledError:
            if waits.done() and not waits.cancelled():
                self.give(waits.result())
            raise

    def drop(self, link: _Link) -> None:
        self._links.discard(link)
        link.writer.transport.abort()
        if self._waiting:
            self._begin()

    async def close(self) -> None:
        """Closes what no call is using, now and later."""
        self._closed = True
        for connecting in self._connecting:
            connecting.cancel()
        if self._connecting:
            await asyncio.wait(self._connecting)
        while self._idle:
            self.drop(self._idle.pop())

    def _begin(self) -> None:
        if len(self._links) < self._most and not self._closed:
            link = _Link(self.factory.make_connection())
            self._links.add(link)
            connecting = asyncio.ensure_future(self._connect(link))
            self._connecting.add(connecting)
            connecting.add_done_callback(self._connecting.discard)

    async def _connect(self, link: _Link) -> None:
        try:
            await link.connect()
        except BaseException as error:
            self._links.discard(link)
            if not isinstance(error, Exception):
                raise
            self.give(unsent(error))
        else:
            self.give(link)

    def give(self, free: Union[_Link, Unsent]) -> None:
        """Gives a connection, or why there is none, to a call that waits; else a connection becomes idle."""
        while self._waiting:
            waits = self._waiting.popleft()
            if not waits.done():
                waits.set_result(free)
                return
        if isinstance(free, _Link) and self._closed:
            self.drop(free)
        elif isinstance(free, _Link):
            self._idle.append(free)


class Tasks(Connections):
    """Makes calls, each in the task that makes it. Connections belong to one event loop."""

    def __init__(self, client: Any, timeout: float) -> None:
        super().__init__(client, timeout, redis.asyncio)
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Address, _Pool]] = WeakKeyDictionary()

    async def run(self, steps: Steps[T]) -> T:
        try:
            step = next(steps)
            while True:
                if step.pause:
                    await asyncio.sleep(step.pause)
                step = steps.send(await self._try(step) if step.commands else None)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            steps.close()  # so that they know at once if the call is cancelled

    async def _try(self, step: Try) -> Any:
        pools = self._by_loop.setdefault(asyncio.get_running_loop(), {})
        pool = pools.get(step.address)
        if pool is None:
            pool = pools[step.address] = _Pool(self.factory(step.address), self.most)
        sent: list[bool] = []
        exchange = asyncio.ensure_future(self._exchange(pool, step, sent))
        try:
            await asyncio.wait([exchange], timeout=max(step.deadline - time.monotonic(), 0))
            for _ in range(_ROUNDS):  # a loop that was busy has not read yet what came in time
                if not exchange.done():
                    await asyncio.sleep(0)
            if exchange.done():
                return exchange.result()
            return Unanswered("no answer came in time") if sent else waited_in_vain(pool.factory)
        finally:
            exchange.cancel()

    async def _exchange(self, pool: _Pool, step: Try, sent: list[bool]) -> Any:
        link = await pool.take()
        if isinstance(link, Unsent):
            return link
        usable = False  # it may owe an answer, which must not be the next caller's
        try:
            if time.monotonic() >= step.deadline:  # the loop was busy
                usable = True
                return waited_in_vain(pool.factory)
            sent.append(True)
            outcome = await link.exchange(step.commands)
            usable = is_usable(outcome)
            return outcome if usable else replace(outcome, was_idle=link.was_idle)
        finally:
            if usable:
                pool.give(link)
            else:
                pool.drop(link)

    async def close(self) -> None:
        for pool in self._by_loop.pop(asyncio.get_running_loop(), {}).values():
            await pool.close()
