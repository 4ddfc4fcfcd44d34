"""Connections for tasks of asyncio: each call has one to itself, until its deadline."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from typing import Any, TypeVar

from ._answers import ends_connection, lets_nobody_in
from ._client import Client
from ._course import Closed, Course, Unanswered, Unsent
from ._nodes import Address
from ._protocol import ErrorReply, ProtocolError, Reply, ReplyReader, encode
from ._shelf import Dial, Shelf
from ._sockets import readable

T = TypeVar("T")


class Tasks:
    """Runs calls, each in the task that makes it."""

    def __init__(self, client: Client, timeout: float) -> None:
        self._client = client
        self._timeout = timeout
        self._closed = False
        # By the event loop: connections belong to one.
        self._pools: dict[asyncio.AbstractEventLoop, dict[Address, _Pool]] = {}

    async def run(self, course: Course[T]) -> T:
        while not course.over:
            if course.pause:
                await asyncio.sleep(course.pause)
            try:
                await self._try(course)
            except Unsent as error:
                course.unsent(error)
            except Unanswered as error:
                course.unanswered(error)
        return course.result()

    async def close(self) -> None:
        self._closed = True
        for pool in self._own_pools().values():
            await pool.close()

    async def _try(self, course: Course[Any]) -> None:
        if self._closed:
            raise Closed("the store is closed")
        pool = self._pool(course.address)
        connection = await pool.take(course.send_by)
        try:
            replies = await connection.exchange(course.request, course.replies, course.deadline)
        except BaseException as error:
            # It may owe an answer, as after a cancellation, so nobody else may have it.
            pool.drop(connection, free_ones_too=isinstance(error, Exception))
            raise
        reply = replies[-1]
        if isinstance(reply, ErrorReply) and ends_connection(reply.text):
            pool.drop(connection, free_ones_too=True)
        else:
            pool.give(connection)
        course.answered(reply)

    def _pool(self, address: Address) -> _Pool:
        pools = self._own_pools()
        if address not in pools:
            for other in pools.values():  # of a cluster's nodes, which may be gone
                other.drop_idle()
            pools[address] = _Pool(self._client, address, self._timeout)
        return pools[address]

    def _own_pools(self) -> dict[Address, _Pool]:
        loop = asyncio.get_running_loop()
        if loop not in self._pools:
            for other in list(self._pools):
                if other.is_closed():
                    self._pools.pop(other, None)
        return self._pools.setdefault(loop, {})


class _Pool:
    """The connections to one server."""

    def __init__(self, client: Client, address: Address, timeout: float) -> None:
        self._client = client
        self._address = address
        self._waiting: OrderedDict[asyncio.Future[None], None] = OrderedDict()
        self._dialing: set[asyncio.Task[None]] = set()
        self._shelf: Shelf[_Connection] = Shelf(client.where(address), client.most_connections, timeout)

    async def take(self, deadline: float) -> _Connection:
        """Returns a connection, or raises Unsent."""
        failures = self._shelf.failures
        try:
            while True:
                now = time.monotonic()
                connection = self._shelf.take(now, deadline, failures)
                if connection is not None:
                    return connection
                await self._wait(now, deadline)
        except BaseException:
            self._wake_next()  # what this one was woken for is for another
            raise

    async def _wait(self, now: float, deadline: float) -> None:
        """Waits until something has changed, or for the deadline."""
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self._waiting[waiter] = None
        self._dial_if_needed(now)
        timer = loop.call_later(deadline - now, _wake, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiting.pop(waiter, None)

    def _dial_if_needed(self, now: float) -> None:
        dial = self._shelf.dial(now, len(self._waiting))
        if dial is not None:
            task = asyncio.ensure_future(self._dial(dial))
            self._dialing.add(task)
            task.add_done_callback(self._dialing.discard)

    async def _dial(self, dial: Dial) -> None:
        try:
            dialing = _Connection.dial(self._client.connection(self._address), self._client.dial_seconds)
            connection = await asyncio.wait_for(dialing, self._client.dial_seconds)
        except asyncio.TimeoutError:
            self._shelf.dial_failed(dial, ConnectionError("it does not answer"))
            self._wake_all()
        except (Exception, asyncio.CancelledError) as error:
            self._shelf.dial_failed(dial, error)
            self._wake_all()
        else:
            self._shelf.dial_succeeded(dial, connection, time.monotonic())
            self._wake_next()

    def _wake_next(self) -> None:
        while self._waiting:
            waiter, _ = self._waiting.popitem(last=False)
            if not waiter.done():
                waiter.set_result(None)
                return

    def _wake_all(self) -> None:
        while self._waiting:
            self._wake_next()

    def give(self, connection: _Connection) -> None:
        self._shelf.give(connection, time.monotonic())
        self._wake_next()

    def drop_idle(self) -> None:
        self._shelf.drop_idle(time.monotonic())

    def drop(self, connection: _Connection, free_ones_too: bool) -> None:
        self._shelf.drop(connection)
        if free_ones_too:
            self._shelf.drop_free()
        self._wake_next()

    async def close(self) -> None:
        self._shelf.close()
        self._wake_all()
        dialing = list(self._dialing)
        for task in dialing:
            task.cancel()
        await asyncio.gather(*dialing, return_exceptions=True)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class _Connection:
    """Streams that redis-py has connected."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._streams = reader, writer
        self._reader = ReplyReader()
        self._expired = False

    @classmethod
    async def dial(cls, dialed: Any, seconds: float) -> _Connection:
        """Connects a connection of redis-py. Who does not answer a PING has not let us in."""
        await dialed.connect()
        # redis-py has done its part: its parsers take the codes off errors.
        connection = cls(dialed._reader, dialed._writer)
        dialed._reader = dialed._writer = None
        try:
            (reply,) = await connection.exchange(encode([b"PING"]), 1, time.monotonic() + seconds)
            if isinstance(reply, ErrorReply) and lets_nobody_in(reply.text):
                raise Unsent(reply.text)
        except BaseException as error:
            connection.close()
            if isinstance(error, (Unsent, Unanswered)):
                raise ConnectionError(str(error)) from error
            raise
        return connection

    @property
    def usable(self) -> bool:
        reader: Any
        reader, writer = self._streams
        if writer.is_closing() or reader.at_eof() or reader._buffer:
            return False
        sock = writer.get_extra_info("socket")
        return sock is None or not readable(sock)  # be it only a message of TLS itself

    async def exchange(self, request: bytes, replies: int, deadline: float) -> list[Reply]:
        """Sends a request and returns its replies, or raises Unsent or Unanswered."""
        reader, writer = self._streams
        left = deadline - time.monotonic()
        if left <= 0 or writer.is_closing():
            raise Unsent("it could not be sent in time")
        timer = asyncio.get_running_loop().call_later(left, self._expire)
        received: list[Reply] = []
        try:
            writer.write(request)
            while len(received) < replies:
                data = await reader.read(65536)
                if not data:
                    raise Unanswered("no answer came" + (" in time" if self._expired else ": the connection was closed"))
                received += self._reader.feed(data)
            if len(received) > replies or not self._reader.empty:
                raise ProtocolError("more answers came than were asked for")
        except (OSError, ProtocolError) as error:
            raise Unanswered(f"no answer came: {error}") from error
        finally:
            timer.cancel()
        return received

    def _expire(self) -> None:
        self._expired = True
        self.close()

    def close(self) -> None:
        self._streams[1].transport.abort()
