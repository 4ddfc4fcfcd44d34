"""Calls that threads make, and their connections."""

from __future__ import annotations

import _thread
import os
import socket
import time
from queue import SimpleQueue
from typing import Any, Callable, Optional, TypeVar, Union

import redis

from ._classify import Unsent
from ._course import Address, Commands, Steps
from ._pool import ERRORS, Calling, Link, Pool

T = TypeVar("T")


class _Socket:
    """A socket that waits until a deadline, even if a reply comes drop by drop."""

    deadline: Optional[float] = None  # None: by the socket's own timeout

    def __init__(self, sock: Any) -> None:
        self._sock = sock

    def __getattr__(self, name: str) -> Any:
        if self.deadline is not None and name in ("recv", "recv_into", "sendall"):
            left = self.deadline - time.monotonic()
            if left <= 0:
                raise socket.timeout("timed out")
            self._sock.settimeout(left)
        return getattr(self._sock, name)


class _Link(Link):
    send_failed = Unsent

    def is_open(self) -> bool:
        self.connection._sock.deadline = None
        try:
            return not self.connection.can_read(timeout=0)
        except ERRORS:
            return False

    async def exchange(self, commands: Commands, deadline: float) -> Any:
        self.connection._sock.deadline = deadline
        return await super().exchange(commands, deadline)

    def close(self) -> None:
        self.connection.disconnect()


class Threads(Calling):
    """Makes calls, each in the thread of its caller."""

    new_queue = SimpleQueue
    link_class = _Link

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
        result: T = _finish(self._run, steps)
        return result

    def pools(self) -> dict[Address, Pool]:
        if self._pid != os.getpid():  # a child after a fork has connections of its own
            self._pools, self._pid = {}, os.getpid()
        return self._pools

    def start(self, run: Callable[[Link], Any], link: Link) -> None:
        try:
            _thread.start_new_thread(_finish, (run, link))
        except RuntimeError:  # there are too many threads, or the program is ending
            _finish(run, link)

    async def get(self, queue: Any, deadline: float) -> Union[Link, Unsent]:
        free: Union[Link, Unsent] = queue.get(timeout=max(deadline - time.monotonic(), 0))
        return free

    async def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self) -> None:
        for pool in list(self._pools.values()):
            pool.close()


def _finish(run: Callable[..., Any], argument: Any) -> Any:
    """Runs a coroutine that never suspends, and returns its result."""
    try:
        run(argument).send(None)
    except StopIteration as end:
        return end.value
