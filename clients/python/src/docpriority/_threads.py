"""Connections for threads: each call has one to itself, until its deadline."""

from __future__ import annotations

import _thread
import os
import socket
import ssl
import threading
import time
from collections import OrderedDict
from typing import Any, TypeVar

from ._answers import ends_connection, lets_nobody_in
from ._client import Client
from ._course import Course, Unanswered, Unsent
from ._nodes import Address
from ._protocol import ErrorReply, ProtocolError, Reply, ReplyReader, encode
from ._shelf import Dial, Shelf
from ._sockets import readable

T = TypeVar("T")


class Threads:
    """Runs calls, each in the thread that makes it."""

    def __init__(self, client: Client, timeout: float) -> None:
        self._client = client
        self._timeout = timeout
        self._closed = False
        # By the process: after a fork a child begins anew, for its parent's connections,
        # and locks that some thread of the parent may hold, are not its own.
        self._pools: dict[int, dict[Address, _Pool]] = {}

    def run(self, course: Course[T]) -> T:
        while not course.over:
            if course.pause:
                time.sleep(course.pause)
            try:
                self._try(course)
            except Unsent as error:
                course.unsent(error)
            except Unanswered as error:
                course.unanswered(error)
        return course.result()

    def close(self) -> None:
        self._closed = True
        for pool in list(self._own_pools().values()):
            pool.close()

    def _try(self, course: Course[Any]) -> None:
        pool = self._pool(course.address)
        connection = pool.take(course.send_by)
        try:
            replies = connection.exchange(course.request, course.replies, course.deadline)
        except BaseException as error:
            # It may owe an answer, so nobody else may have it.
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
        pool = pools.get(address)
        if pool is None:
            for other in list(pools.values()):  # of a cluster's nodes, which may be gone
                other.drop_idle()
            pool = pools.setdefault(address, _Pool(self._client, address, self._timeout))
        if self._closed:
            pool.close()
        return pool

    def _own_pools(self) -> dict[Address, _Pool]:
        pools = self._pools.get(os.getpid())
        if pools is None:
            self._pools = {os.getpid(): {}}
            pools = self._pools[os.getpid()]
        return pools


class _Pool:
    """The connections to one server.

    There is no Condition: a handler of signals that raises may come between it and its
    ``with``, but not between a lock and its own.
    """

    def __init__(self, client: Client, address: Address, timeout: float) -> None:
        self._client = client
        self._address = address
        self._lock = threading.RLock()  # such a handler may call the store too
        self._waiting: OrderedDict[Any, None] = OrderedDict()  # locks, released to wake who waits
        self._shelf: Shelf[_Connection] = Shelf(client.where(address), client.most_connections, timeout)

    def take(self, deadline: float) -> _Connection:
        """Returns a connection, or raises Unsent."""
        failures = self._shelf.failures
        asleep = None
        try:
            while True:
                with self._lock:
                    self._waiting.pop(asleep, None)
                    now = time.monotonic()
                    connection = self._shelf.take(now, deadline, failures)
                    if connection is not None:
                        return connection
                    asleep = threading.Lock()
                    asleep.acquire()
                    self._waiting[asleep] = None
                    self._dial_if_needed(now)
                asleep.acquire(timeout=deadline - now)
        except BaseException:
            with self._lock:
                self._waiting.pop(asleep, None)
                self._wake_next()  # what this one was woken for is for another
            raise

    def _dial_if_needed(self, now: float) -> None:
        dial = self._shelf.dial(now, len(self._waiting))
        if dial is None:
            return
        # In a thread of its own, because looking a name up takes as long as it likes. A
        # Thread's start would not bear the exception of a handler of signals.
        try:
            _thread.start_new_thread(self._dial, (dial,))
        except RuntimeError as error:
            if "shutdown" in str(error):  # Python 3.12 and later start none at the end of a program, when Dones are paid
                return self._dial(dial)
            self._shelf.dial_failed(dial, error)  # there are too many
            self._wake_all()

    def _dial(self, dial: Dial) -> None:
        try:
            connection = _Connection.dial(self._client.connection(self._address), self._client.dial_seconds)
        except Exception as error:
            with self._lock:
                self._shelf.dial_failed(dial, error)
                self._wake_all()
            return
        with self._lock:
            self._shelf.dial_succeeded(dial, connection, time.monotonic())
            self._wake_next()

    def _wake_next(self) -> None:
        if self._waiting:
            self._waiting.popitem(last=False)[0].release()

    def _wake_all(self) -> None:
        while self._waiting:
            self._wake_next()

    def give(self, connection: _Connection) -> None:
        with self._lock:
            self._shelf.give(connection, time.monotonic())
            self._wake_next()

    def drop(self, connection: _Connection, free_ones_too: bool) -> None:
        with self._lock:
            self._shelf.drop(connection)
            if free_ones_too:
                self._shelf.drop_free()
            self._wake_next()

    def drop_idle(self) -> None:
        with self._lock:
            self._shelf.drop_idle(time.monotonic())

    def close(self) -> None:
        with self._lock:
            self._shelf.close()
            self._wake_all()


class _Connection:
    """A socket that redis-py has connected."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._reader = ReplyReader()
        self._is_tls = isinstance(sock, ssl.SSLSocket)

    @classmethod
    def dial(cls, dialed: Any, seconds: float) -> _Connection:
        """Connects a connection of redis-py. Who does not answer a PING has not let us in."""
        dialed.connect()
        # redis-py has done its part: it would keep no deadline, and its parsers take
        # the codes off errors.
        sock, dialed._sock = dialed._sock, None
        connection = cls(sock)
        try:
            (reply,) = connection.exchange(encode([b"PING"]), 1, time.monotonic() + seconds)
        except (Unsent, Unanswered) as error:
            connection.close()
            raise ConnectionError(str(error)) from error
        if isinstance(reply, ErrorReply) and lets_nobody_in(reply.text):
            connection.close()
            raise ConnectionError(reply.text)
        return connection

    @property
    def usable(self) -> bool:
        try:
            if not readable(self._socket):
                return True
            if self._is_tls:  # what came may be a message of TLS itself
                self._socket.settimeout(0)
                self._socket.recv(1)
        except (BlockingIOError, ssl.SSLWantReadError):
            return True
        except OSError:
            pass
        return False  # the end of the connection, or an answer to nothing

    def exchange(self, request: bytes, replies: int, deadline: float) -> list[Reply]:
        """Sends a request and returns its replies, or raises Unsent or Unanswered."""
        self._send(request, deadline)
        received: list[Reply] = []
        try:
            while len(received) < replies:
                self._socket.settimeout(_left(deadline))
                data = self._socket.recv(65536)
                if not data:
                    raise Unanswered("no answer came: the connection was closed")
                received += self._reader.feed(data)
            if len(received) > replies or not self._reader.empty:
                raise ProtocolError("more answers came than were asked for")
        except (TimeoutError, socket.timeout) as error:  # one and the same since Python 3.10
            raise Unanswered("no answer came in time") from error
        except (OSError, ProtocolError) as error:
            raise Unanswered(f"no answer came: {error}") from error
        return received

    def _send(self, request: bytes, deadline: float) -> None:
        rest = memoryview(request)
        try:
            while rest:
                self._socket.settimeout(_left(deadline))
                rest = rest[self._socket.send(rest) :]
        except OSError as error:
            # What the system has not taken whole, Redis does not run. What TLS has taken
            # is not so clear.
            raise (Unanswered if self._is_tls else Unsent)(f"it could not be sent: {error}") from error

    def close(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_RDWR)  # a forked child may have it open too
        except OSError:
            pass
        self._socket.close()


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("the time is over")
    return left

