"""Makes the calls of threads and of tasks of asyncio, by the same coroutines.

A task awaits them. In a thread they never suspend, because what they wait for blocks: one step ends them.
"""

from __future__ import annotations

import _thread
import asyncio
import math
import os
import select
import socket
import time
from collections.abc import Awaitable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from typing import Any, Callable, Optional, TypeVar, Union
from weakref import WeakKeyDictionary

import redis
import redis.asyncio

from ._classify import Unanswered, Unsent, is_usable
from ._connections import Connections
from ._course import Address, Commands, Deadline, Pause, Steps, Try
from ._pool import ERRORS, Link, Pool

T = TypeVar("T")

_LOOK_SECONDS = 0.02  # between looks whether the event loop pauses
_LATE_SECONDS = 0.005  # that are no pause: a loop is always a little late
_ROUNDS = 5  # of the event loop, until what has arrived is read


class Calling(Connections):
    """Makes the calls of one store."""

    link_class: type[Link]
    new_waiter: Callable[[], Any]  # which one call awaits, until another one wakes it or until a deadline
    wait: Callable[[Any, Deadline], Awaitable[Any]]
    wake: Callable[[Any], None]
    # A coroutine in the background, or if that cannot be, here, or not at all. Reports whether it is in the background.
    start: Callable[..., bool]
    pause: Callable[[Pause], Awaitable[None]]
    pools: Callable[[], dict[Address, Pool]]

    async def exchange(self, link: Link, step: Try) -> Any:
        """Makes a try on a connection."""
        return await link.exchange(step.to_send(), step.deadline)

    async def run_steps(self, steps: Steps[T]) -> T:
        try:
            step = next(steps)
            while True:
                if isinstance(step, Pause):
                    await self.pause(step)
                    step = next(steps)
                else:
                    step = steps.send(await self._try(step))
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            steps.close()  # so that they know at once if an exception ends the call

    async def _try(self, step: Try) -> Any:
        pools = self.pools()
        pool = pools.get(step.address) or pools.setdefault(step.address, Pool(self, step.address))
        answered = pool.answered
        link = await pool.take(step.deadline)
        step.deadline.starved = pool.answered != answered
        if isinstance(link, Unsent):
            step.deadline.starved &= link.cause is None  # else it could not connect
            return link
        usable = False  # it may owe an answer, which must not be the next caller's
        try:
            if step.deadline.left() <= 0:
                usable = True
                return pool.in_vain()
            step.deadline.starved = False
            outcome = await self.exchange(link, step)
            usable = is_usable(outcome)
            pool.answered += usable
        finally:
            if usable:
                pool.give(link)
            else:
                pool.drop(link)
        return outcome if usable else replace(outcome, was_idle=link.was_idle)


class _Socket:
    """A socket that waits until a deadline, even if a reply comes drop by drop."""

    deadline: Optional[Deadline] = None  # None: by the socket's own timeout

    def __init__(self, sock: Any) -> None:
        self._sock = sock

    def __getattr__(self, name: str) -> Any:
        if self.deadline is not None and name in ("recv", "recv_into", "sendall"):
            left = self.deadline.left()
            if left <= 0:
                raise socket.timeout("timed out")
            self._sock.settimeout(left)
        return getattr(self._sock, name)


class _ThreadLink(Link):
    send_failed = Unsent

    def is_open(self) -> bool:
        self.connection._sock.deadline = None
        try:
            return not self.connection.can_read(timeout=0)
        except ERRORS:
            return False

    async def exchange(self, commands: Commands, deadline: Deadline) -> Any:
        self.connection._sock.deadline = deadline
        return await super().exchange(commands, deadline)

    def close(self) -> None:
        self.connection.disconnect()


class Threads(Calling):
    """Makes calls, each in the thread of its caller."""

    link_class = _ThreadLink

    def __init__(self, client: Any, timeout: float) -> None:
        super().__init__(client, timeout, redis)
        self._pools: dict[Address, Pool] = {}
        self._pid = os.getpid()
        made: Any = self.connection_class

        class WithDeadlines(made):  # type: ignore[misc]
            def _connect(self) -> Any:
                return _Socket(super()._connect())

        self.connection_class = WithDeadlines

    def run(self, steps: Steps[T]) -> T:
        result: T = _finish(self.run_steps, steps)
        return result

    def pools(self) -> dict[Address, Pool]:
        if self._pid != os.getpid():  # a child after a fork has connections of its own
            self._pools, self._pid = {}, os.getpid()
        return self._pools

    def start(self, run: Callable[[Any], Any], argument: Any, here: bool = True) -> bool:
        try:
            _thread.start_new_thread(_finish, (run, argument))
        except RuntimeError:  # there are too many threads, or the program is ending
            if here:
                _finish(run, argument)
            return False
        return True

    def new_waiter(self) -> Any:
        waiter = _thread.allocate_lock()
        waiter.acquire()
        return waiter

    async def wait(self, waiter: Any, deadline: Deadline) -> None:
        waiter.acquire(timeout=max(deadline.left(), 0))

    def wake(self, waiter: Any) -> None:
        waiter.release()

    async def pause(self, pause: Pause) -> None:
        time.sleep(pause.seconds)

    def close(self) -> None:
        for pool in list(self._pools.values()):
            pool.close()


def _finish(run: Callable[..., Any], argument: Any) -> Any:
    """Runs a coroutine that never suspends, and returns its result."""
    try:
        run(argument).send(None)
    except StopIteration as end:
        return end.value


class _TaskLink(Link):
    async def connect(self) -> None:
        self._loop = asyncio.get_running_loop()
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

    def close(self) -> None:
        connection = self.connection
        writer, connection._reader, connection._writer = connection._writer, None, None
        if writer is not None and self._loop.is_closed():  # which can no longer be told
            sock = writer.get_extra_info("socket")
            getattr(sock, "_sock", sock).close()
        elif writer is not None:
            writer.transport.abort()


class _Pauses:
    """How long an event loop has paused: been late for a timer, which runs while calls wait."""

    def __init__(self) -> None:
        self._waiting, self._seconds, self._due = 0, 0.0, math.inf
        self._timer: Optional[asyncio.TimerHandle] = None

    def seconds(self) -> float:
        late = time.monotonic() - self._due
        if late > _LATE_SECONDS:
            self._seconds, self._due = self._seconds + late, self._due + late
        return self._seconds

    @contextmanager
    def during(self, deadline: Deadline) -> Iterator[None]:
        """A call waits."""
        self._waiting += 1
        if self._waiting == 1:
            self._look()
        deadline.follow(self.seconds)
        try:
            yield
        finally:
            self._waiting -= 1
            if self._waiting == 0 and self._timer is not None:
                self.seconds()
                self._timer.cancel()
                self._timer, self._due = None, math.inf

    def _look(self) -> None:
        self.seconds()
        self._due = time.monotonic() + _LOOK_SECONDS
        self._timer = asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._look)


class Tasks(Calling):
    """Makes calls, each in the task that makes it. Connections belong to one event loop."""

    link_class = _TaskLink
    run = Calling.run_steps

    def __init__(self, client: Any, timeout: float) -> None:
        super().__init__(client, timeout, redis.asyncio)
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Address, Pool]] = WeakKeyDictionary()
        self._pauses: WeakKeyDictionary[asyncio.AbstractEventLoop, _Pauses] = WeakKeyDictionary()
        self._background: set[asyncio.Future[Any]] = set()

    def pools(self) -> dict[Address, Pool]:
        loop = asyncio.get_running_loop()
        pools = self._by_loop.get(loop)
        if pools is None:
            self._leave_closed_loops()
            pools = self._by_loop.setdefault(loop, {})
        return pools

    def _leave_closed_loops(self) -> None:
        """Ends what is left in event loops that were closed, as asyncio.run does."""
        for loop in [loop for loop in list(self._by_loop) if loop.is_closed()]:
            for pool in self._by_loop.pop(loop, {}).values():
                pool.close()
            self._pauses.pop(loop, None)
        self._background -= {task for task in list(self._background) if task.get_loop().is_closed()}

    def start(self, run: Callable[[Any], Any], argument: Any, here: bool = True) -> bool:
        task = asyncio.ensure_future(run(argument))
        self._background.add(task)  # else it could be garbage-collected
        task.add_done_callback(self._background.discard)
        return True

    def new_waiter(self) -> asyncio.Future[None]:
        return asyncio.get_running_loop().create_future()

    async def wait(self, waiter: asyncio.Future[None], deadline: Deadline) -> None:
        await self.until(waiter, deadline)

    def wake(self, waiter: asyncio.Future[None]) -> None:
        waiter.set_result(None)

    async def pause(self, pause: Pause) -> None:
        with self._waiting(pause.deadline):
            await asyncio.sleep(pause.seconds)

    async def exchange(self, link: Link, step: Try) -> Any:
        exchange = asyncio.ensure_future(link.exchange(step.to_send(), step.deadline))
        try:
            await self.until(exchange, step.deadline)
            return exchange.result() if exchange.done() else Unanswered("no answer came in time")
        finally:
            exchange.cancel()

    async def until(self, future: asyncio.Future[Any], deadline: Deadline) -> None:
        """Waits until a future is done, at most until a deadline."""
        with self._waiting(deadline):
            while not future.done() and (seconds := deadline.left()) > 0:
                await asyncio.wait([future], timeout=seconds)
        for _ in range(_ROUNDS):  # a loop that was busy has not read yet what came in time
            if not future.done():
                await asyncio.sleep(0)

    def _waiting(self, deadline: Deadline) -> AbstractContextManager[None]:
        loop = asyncio.get_running_loop()
        pauses = self._pauses.get(loop)
        if pauses is None:
            pauses = self._pauses[loop] = _Pauses()
        return pauses.during(deadline)

    async def close(self) -> None:
        """Ends the connections of all event loops, and what runs in the background of this one."""
        self._leave_closed_loops()
        loop = asyncio.get_running_loop()
        for other in list(self._by_loop):
            for pool in self._by_loop.pop(other, {}).values():
                if other is loop:
                    pool.close()
                else:
                    with suppress(RuntimeError):  # that loop was closed just now
                        other.call_soon_threadsafe(pool.close)
        background = [task for task in self._background if task.get_loop() is loop]
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
