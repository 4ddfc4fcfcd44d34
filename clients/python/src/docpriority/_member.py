"""A process's place in the fleet: it follows the operators' rules, and reports what it did."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import threading
import time
import uuid
import weakref
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Callable, Optional, Protocol, Tuple

from ._calls import Call, Calls, Lost
from ._course import Course
from ._errors import PriorityError
from ._fallback import Fallback
from ._nodes import Nodes
from ._report import Told, Window, fitted, printable
from ._rules import Follower
from ._scripts import plain_script
from ._tasks import Tasks
from ._threads import Threads

FOLLOW_SECONDS, REPORT_SECONDS = 0.5, 5.0
_TIMEOUT = 1.0  # seconds, of a call of the background: rules may be long, and no caller waits
_MOST_BYTES_OF_A_NAME = 100

_log = logging.getLogger("docpriority")

Step = Tuple[Call[None], Callable[[PriorityError], None]]
"""A call that the background makes, and what to do if it fails."""


class Here(Protocol):
    def here(self) -> Fallback:
        """Returns the fallback of this process."""


def checked_name(name: str) -> str:
    """Returns the name of a member, or raises."""
    if not isinstance(name, str):
        raise TypeError(f"the name is a str, not {type(name).__name__}")
    if len(name.encode()) > _MOST_BYTES_OF_A_NAME:
        raise ValueError(f"the name {name[:80]!r} has more than {_MOST_BYTES_OF_A_NAME} bytes")
    return name


class Member:
    """What the background does for a store, and when. No input or output is done here."""

    def __init__(self, calls: Calls, told: Told, follower: Follower, name: str, fallback: Optional[Here]) -> None:
        from . import __version__

        host, pid = printable(socket.gethostname(), _MOST_BYTES_OF_A_NAME), os.getpid()
        self._id = uuid.uuid4().hex[:16]
        self._who = {
            "format": 1, "id": self._id, "name": printable(name or f"{host}-{pid}", _MOST_BYTES_OF_A_NAME),
            "language": "python", "version": __version__, "host": host, "pid": pid,
        }
        self._calls = calls
        self._told = told
        self._follower = follower
        self._fallback = fallback
        joined = time.monotonic()
        self._window = Window(joined)
        self._report_at = joined
        self._followed = self._reported = (follower.version, follower.error)
        self._cannot_report = False
        self._may_be_there = False  # a report in Redis

    def round(self) -> Iterator[Step]:
        """Returns what is to be done now."""
        yield self._follower.call(time.monotonic()), self._follower.failed
        self._log_rules()
        now = time.monotonic()
        self._window.count(self._told, now)
        if now >= self._report_at or self._followed != self._reported:
            self._report_at, self._reported = now + _about(REPORT_SECONDS), self._followed
            self._may_be_there = True
            yield self._write(fitted(self._report(now))), self._not_written

    def last(self) -> Iterator[Step]:
        """Returns what is to be done in the end, or until there is a round again."""
        self._report_at = time.monotonic()
        if self._may_be_there:
            self._may_be_there = False
            yield self._write(b""), lambda error: None  # else it ends by itself

    @property
    def pause(self) -> float:
        """Seconds until the next round."""
        return _about(FOLLOW_SECONDS)

    def _report(self, now: float) -> dict[str, Any]:
        version, error = self._followed
        return {
            **self._who, "levels": self._calls.own.last, "overrides": self._calls.reads_overrides,
            "degraded": self._is_degraded(now), "rules": {"version": version, "error": printable(error, 200)}, **self._window.fields(now),
        }

    def _is_degraded(self, now: float) -> bool:
        return self._fallback.here().degraded if self._fallback is not None else self._window.degraded(now)

    def _write(self, report: bytes) -> Call[None]:
        keys = [self._calls.key("fleet", end) for end in (self._id, "members")]
        arguments = [self._id.encode(), report]
        return Call("report", plain_script("report"), keys, arguments, Lost.MAY_BE_REPEATED, 1, self._written)

    def _written(self, reply: list[int]) -> None:
        self._cannot_report = False

    def _not_written(self, error: PriorityError) -> None:
        if not self._cannot_report:
            _log.warning("reports cannot be written: %s", error)
        self._cannot_report = True

    def _log_rules(self) -> None:
        before, self._followed = self._followed, (self._follower.version, self._follower.error)
        version, error = self._followed
        if error != before[1] and error:
            rules = f"the operators' rules of version {version}" if version else "the store's own policies"
            _log.warning("%s stay in force: %s", rules, error)
        elif self._followed != before:
            _log.info("the operators' rules of version %d are in force", version)


def _about(seconds: float) -> float:
    """A fleet's processes must not ask all at once."""
    return seconds * random.uniform(0.9, 1.1)


class MemberThread:
    """Has a daemon thread do what a member does, in each process that uses the store. It does
    not know the store, which may be forgotten before it is closed."""

    def __init__(self, calls: Calls, threads: Threads, nodes: Nodes, name: str, fallback: Optional[Here]) -> None:
        self._calls, self._threads, self._nodes = calls, threads, nodes
        self._name = checked_name(name)
        self._fallback = fallback
        self._follower = Follower(calls)
        self._told = calls.told = Told()
        self._by_process: dict[int, _Work] = {}
        self._closed = False

    def begin(self) -> None:
        """Sees to it that the thread runs in this process."""
        pid = os.getpid()
        if pid in self._by_process or self._closed:
            return
        if self._by_process:  # after a fork: what its parent's callers were told
            self._told.clear()
        new = _Work(Member(self._calls, self._told, self._follower, self._name, self._fallback), self._run)
        if self._by_process.setdefault(pid, new) is new:
            try:
                new.start()
            except RuntimeError:  # there are too many threads now, or the program ends
                self._by_process.pop(pid)

    def close(self) -> None:
        self._closed = True
        work = self._by_process.get(os.getpid())
        if work is not None:
            work.stop()

    def _run(self, call: Call[None]) -> None:
        self._threads.run(Course(call, self._nodes, _TIMEOUT))


class _Work(threading.Thread):
    def __init__(self, member: Member, run: Callable[[Call[None]], None]) -> None:
        super().__init__(name="docpriority", daemon=True)
        self._member = member
        self._run_call = run
        self._stopped = threading.Event()

    def run(self) -> None:
        while True:
            self._do(self._member.round())
            if self._stopped.wait(self._member.pause):
                break
        self._do(self._member.last())

    def _do(self, steps: Iterator[Step]) -> None:
        for call, failed in steps:
            try:
                self._run_call(call)
            except PriorityError as error:
                failed(error)

    def stop(self) -> None:
        self._stopped.set()
        if self.is_alive() and self is not threading.current_thread():
            self.join(2 * _TIMEOUT + 1)  # for the call under way, and the last one


class MemberTask:
    """Has a task do what a member does, in the event loop that first uses the store, or in
    another one after that has ended."""

    def __init__(self, store: Any, calls: Calls, tasks: Tasks, nodes: Nodes, name: str, fallback: Optional[Here]) -> None:
        self._store = weakref.ref(store)
        self._calls, self._tasks, self._nodes = calls, tasks, nodes
        self._name = checked_name(name)
        self._fallback = fallback
        self._follower = Follower(calls)
        self._told = calls.told = Told()
        self._member: Optional[Member] = None
        self._task: Optional[asyncio.Task[None]] = None
        self._closed = False

    def begin(self) -> None:
        """Sees to it that the task runs."""
        if self._closed or self._task is not None and not self._task.done() and not self._task.get_loop().is_closed():
            return
        if self._member is None:
            self._member = Member(self._calls, self._told, self._follower, self._name, self._fallback)
        self._task = asyncio.get_running_loop().create_task(self._work(self._member))

    async def close(self) -> None:
        self._closed = True
        task = self._task
        if task is None or task.done():
            return
        if task.get_loop() is not asyncio.get_running_loop():
            with suppress(RuntimeError):  # it is closed
                task.get_loop().call_soon_threadsafe(task.cancel)
            return
        task.cancel()
        await asyncio.wait([task])

    async def _work(self, member: Member) -> None:
        with suppress(asyncio.CancelledError):  # by close, or because the loop ends
            while self._store() is not None:
                await self._do(member.round())
                await asyncio.sleep(member.pause)
        await self._do(member.last())

    async def _do(self, steps: Iterator[Step]) -> None:
        for call, failed in steps:
            try:
                await self._tasks.run(Course(call, self._nodes, _TIMEOUT))
            except PriorityError as error:
                failed(error)
