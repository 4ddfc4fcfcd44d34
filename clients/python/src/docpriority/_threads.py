"""Calls that threads make, and their connections."""

from __future__ import annotations

import _thread
import os
import socket
import time
from contextlib import suppress
from dataclasses import replace
from queue import Empty, SimpleQueue
from ssl import SSLWantReadError
from typing import Any, NamedTuple, TypeVar, Union
from weakref import WeakSet

import redis

from ._classify import Unanswered, Unsent, is_usable
from ._connections import Connections, unsent, waited_in_vain
from ._course import Address, Steps, Try
from ._protocol import Commands, Replies, packed

T = TypeVar("T")


class _Link:
    """A connection, once redis-py has made it and has logged in."""

    sock: socket.socket
    was_idle = False

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def connect(self) -> None:
        self._connection.connect()
        self.sock, self._connection._sock = self._connection._sock, None

    def is_open(self) -> bool:
        """Reports whether the other end has not closed it while it was idle."""
        is_open = False
        try:
            self.sock.settimeout(0)
            self.sock.recv(1)
        except OSError as error:
            is_open = isinstance(error, (BlockingIOError, SSLWantReadError))
        return is_open

    def exchange(self, commands: Commands, deadline: float) -> Any:
        """Sends commands and returns the reply to the last, the first that is an error, or why there is none."""
        replies = Replies(len(commands))
        try:
            self._wait_until(deadline)
            self.sock.sendall(packed(commands))
        except OSError as error:  # so a part of the commands was not sent
            return Unsent(f"the command could not be sent: {error}", error)
        try:
            self._wait_until(deadline)
            while not replies.add(self.sock.recv(65536)):
                self._wait_until(deadline)  # again each time: a reply may come drop by drop
        except (OSError, ValueError, RecursionError) as error:
            return Unanswered(f"no answer came: {error}", error)
        return replies.result

    def _wait_until(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self.sock.settimeout(left)

    def close(self) -> None:
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()


class _Failed(NamedTuple):
    """An attempt to connect that failed."""

    at: float
    error: Exception


class _Pool:
    """Connections to one server. A call that finds none waits for the first that comes: one that another call gives
    back, or a new one, which connects in a thread, because connecting may take longer than a call.

    It has no locks, which an exception of a signal's handler would leave locked. A connection that is lost by one
    leaves its place when it is garbage-collected.
    """

    def __init__(self, factory: Any, most: int) -> None:
        self._factory = factory
        self._most = most
        self._free: SimpleQueue[Union[_Link, _Failed]] = SimpleQueue()
        self._links: WeakSet[_Link] = WeakSet()
        self._waiting: set[object] = set()  # calls
        self._closed = False

    def take(self, deadline: float) -> Union[_Link, Unsent]:
        began, waits, own = time.monotonic(), False, object()
        try:
            while True:
                try:
                    free = self._free.get(waits, max(deadline - time.monotonic(), 0))
                except Empty:
                    if waits:
                        return waited_in_vain(self._factory)
                    waits = True
                    self._waiting.add(own)
                    self._begin()
                    continue
                if isinstance(free, _Failed):
                    if free.at >= began:  # else earlier calls were told
                        return unsent(free.error)
                elif free.is_open():
                    free.was_idle = not waits
                    return free
                else:
                    self.drop(free)
                    waits = False
        finally:
            self._waiting.discard(own)
            if self._waiting and not waits:  # it may have taken what another call had begun
                self._begin()

    def drop(self, link: _Link) -> None:
        self._links.discard(link)
        link.close()
        if self._waiting:
            self._begin()

    def close(self) -> None:
        """Closes what no call is using, now and later."""
        self._closed = True
        with suppress(Empty):
            while True:
                free = self._free.get_nowait()
                if isinstance(free, _Link):
                    self.drop(free)

    def _begin(self) -> None:
        if self._closed or len(self._links) >= self._most:
            return
        link = _Link(self._factory.make_connection())
        self._links.add(link)
        try:
            _thread.start_new_thread(self._connect, (link,))
        except RuntimeError:  # there are too many threads, or the program is ending
            self._connect(link)

    def _connect(self, link: _Link) -> None:
        try:
            link.connect()
        except Exception as error:
            self._links.discard(link)
            self.give(_Failed(time.monotonic(), error))
        else:
            self.give(link)

    def give(self, free: Union[_Link, _Failed]) -> None:
        """Lets another call have a connection, or know why there is none."""
        self._free.put(free)
        if self._closed:
            self.close()


class Threads(Connections):
    """Makes calls, each in the thread of its caller."""

    def __init__(self, client: Any, timeout: float) -> None:
        super().__init__(client, timeout, redis)
        self._pools: dict[Address, _Pool] = {}
        self._pid = os.getpid()

    def run(self, steps: Steps[T]) -> T:
        try:
            step = next(steps)
            while True:
                time.sleep(step.pause)
                step = steps.send(self._try(step) if step.commands else None)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            steps.close()  # so that they know at once if an exception ends the call

    def _try(self, step: Try) -> Any:
        pool = self._pool(step.address)
        link = pool.take(step.deadline)
        if isinstance(link, Unsent):
            return link
        usable = False  # it may owe an answer, which must not be the next caller's
        try:
            outcome = link.exchange(step.commands, step.deadline)
            usable = is_usable(outcome)
        finally:
            if usable:
                pool.give(link)
            else:
                pool.drop(link)
        return outcome if usable else replace(outcome, was_idle=link.was_idle)

    def _pool(self, address: Address) -> _Pool:
        if self._pid != os.getpid():  # a child after a fork has connections of its own
            self._pools, self._pid = {}, os.getpid()
        return self._pools.get(address) or self._pools.setdefault(address, _Pool(self.factory(address), self.most))

    def close(self) -> None:
        for pool in list(self._pools.values()):
            pool.close()
