"""A process's place in the fleet: it follows the operators' policies, and reports what it did."""

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
from contextlib import suppress
from functools import partial
from typing import Any, Optional

from ._calling import Tasks, Threads
from ._calls import Call, Calls, Lost
from ._course import Deadline, Nodes, Steps, course
from ._errors import PriorityError
from ._fallback import Fallback
from ._following import Follower
from ._report import Window, fitted, printable
from ._scripts import plain_script

FOLLOW_SECONDS, REPORT_SECONDS = 0.5, 5.0
_ADD_SECONDS = 45.0  # to the history: before the window forgets a step
_TIMEOUT = 1.0  # seconds, for a background call: policies may be long, and no caller waits
_MOST_BYTES_OF_A_NAME = 100

_log = logging.getLogger("docpriority")


class Member:
    """The background work of one process for a store. Its rounds are steps, like calls."""

    def __init__(self, calls: Calls, nodes: Nodes, follower: Follower, name: str, fallback: Optional[Fallback]) -> None:
        from . import __version__  # here, because the package imports this module

        host, pid = printable(socket.gethostname(), _MOST_BYTES_OF_A_NAME), os.getpid()
        self._id = uuid.uuid4().hex[:16]
        self._who = {
            "format": 1, "id": self._id, "name": printable(name or f"{host}-{pid}", _MOST_BYTES_OF_A_NAME),
            "language": "python", "version": __version__, "host": host, "pid": pid,
        }  # fmt: skip
        self._calls, self._nodes, self._follower, self._fallback = calls, nodes, follower, fallback
        self.window = Window()
        self._report_at = time.monotonic()
        self._following = self._reported = follower.following
        self._cannot_report = False
        self._replied = 0  # by report.lua, the latest time; 0: never
        self._add_at = 0.0

    def round(self) -> Steps[float]:
        """Does what is due now, and returns how many seconds to wait for the next round."""
        now = time.monotonic()
        try:
            yield from course(self._follower.call(), self._nodes, Deadline(_TIMEOUT))
        except PriorityError as error:
            self._follower.failed(error)
        self._log_following()
        if now >= self._report_at or self._following != self._reported:
            self._report_at, self._reported = now + _about(REPORT_SECONDS), self._following
            try:
                yield from self._write(fitted(self._report()), now >= self._add_at)
                self._cannot_report = False
            except PriorityError as error:
                if not self._cannot_report:
                    _log.warning("docpriority: reports cannot be written: %s", error)
                self._cannot_report = True
        return _about(FOLLOW_SECONDS)

    def leave(self, timeout: float) -> Steps[None]:
        """Removes the report, permanently or until the next round."""
        with suppress(PriorityError):  # a report that stays expires
            yield from self._write(b"", True, timeout)
        self._report_at, self._replied = time.monotonic(), 0

    def _report(self) -> dict[str, Any]:
        return {
            **self._who, "written_ms": time.time_ns() // 1_000_000, "digest": self._calls.digest(), "levels": self._calls.own_policies.last, "overrides": self._calls.reads_overrides, "accounts": self._calls.accounts,
            "degraded": self._fallback is not None and self._fallback.degraded,
            "following": self._following, "changed_ms": self._follower.changed, **self.window.fields(),
        }  # fmt: skip

    def _write(self, report: bytes, adds: bool, timeout: float = _TIMEOUT) -> Steps[None]:
        """Writes the report, or removes it, and perhaps adds to the history."""
        keys = [self._calls.key("fleet", end) for end in (self._id, "members", "emptied", "history")]
        fields, last = self.window.history(ending=not report) if adds else ({}, -1)
        arguments = [self._id.encode(), report, b"%d" % self._replied]
        for field, number in fields.items():
            arguments += [field.encode(), b"%d" % number]
        call = Call("report", plain_script("report"), keys, arguments, Lost.MAY_BE_REPEATED, 1, lambda reply, degraded: int(reply[0]))
        self._replied = yield from course(call, self._nodes, Deadline(timeout))
        if adds:
            self.window.added(last)
            self._add_at = time.monotonic() + _ADD_SECONDS

    def _log_following(self) -> None:
        before, self._following = self._following, self._follower.following
        if self._following == before:
            return
        policies = "the store's own policies" if self._following["own"] else f"the operators' policies of version {self._following['version']}"
        why = [self._following[field] for field in ("code", "detail") if field in self._following]
        if why:
            _log.warning("docpriority: %s still apply: %s", policies, ": ".join(why).replace("unreachable", "Redis cannot be reached"))
        else:
            _log.info("docpriority: %s apply", policies)


def _about(seconds: float) -> float:
    """Jitter, so that a fleet's processes do not all ask at once."""
    return seconds * random.uniform(0.9, 1.1)


def patience(timeout: float) -> float:
    """Returns how long close waits for Redis, by the store's timeout: for the call in progress, and the report's removal."""
    return min(max(2 * timeout, 0.5), 3)


class MemberThread:
    """Runs a member in a daemon thread, in each process that uses the store. It holds no reference to the store,
    which may be garbage-collected before it is closed."""

    def __init__(self, calls: Calls, threads: Threads, name: str, fallback: Optional[Fallback]) -> None:
        self._calls, self._threads = calls, threads
        self._new_member = partial(Member, calls, threads.nodes, Follower(calls), name, fallback)
        self._stopped = threading.Event()
        self._by_process: dict[int, threading.Thread] = {}  # without a lock, because a child could inherit it held

    def begin(self) -> None:
        """Ensures that the thread runs in this process."""
        pid = os.getpid()
        if pid in self._by_process or self._stopped.is_set():
            return
        member = self._new_member()
        new = threading.Thread(target=self._work, args=(member,), name="docpriority", daemon=True)
        if self._by_process.setdefault(pid, new) is new:  # else another thread was faster
            self._calls.window = member.window
            try:
                new.start()
            except RuntimeError:  # there are too many threads, or the program is ending
                self._by_process.pop(pid)

    def stop(self) -> None:
        self._stopped.set()

    def join(self, deadline: Deadline) -> None:
        thread = self._by_process.get(os.getpid())
        if thread is not None and thread.is_alive() and thread is not threading.current_thread():
            thread.join(max(deadline.left(), 0))

    def _work(self, member: Member) -> None:
        while not self._stopped.wait(self._threads.run(member.round())):
            pass
        self._threads.run(member.leave(patience(self._threads.timeout)))


class MemberTask:
    """Runs a member in a task of the event loop that first uses the store, or of another one after that loop has
    ended."""

    def __init__(self, store: Any, calls: Calls, tasks: Tasks, name: str, fallback: Optional[Fallback]) -> None:
        self._store = weakref.ref(store)
        self._calls, self._tasks = calls, tasks
        self._new_member = partial(Member, calls, tasks.nodes, Follower(calls), name, fallback)
        self._member: Optional[Member] = None
        self._task: Optional[asyncio.Task[None]] = None
        self._closed = False

    def begin(self) -> None:
        """Ensures that the task runs."""
        if self._closed or self._task is not None and not self._task.done() and not self._task.get_loop().is_closed():
            return
        if self._member is None:
            self._member = self._new_member()
            self._calls.window = self._member.window
        self._task = asyncio.get_running_loop().create_task(self._work(self._member))

    async def close(self) -> None:
        self._closed = True
        task = self._task
        if task is None or task.done():
            return
        if task.get_loop() is asyncio.get_running_loop():
            task.cancel()
            await asyncio.wait([task])
        else:
            with suppress(RuntimeError):  # that loop is closed
                task.get_loop().call_soon_threadsafe(task.cancel)

    async def _work(self, member: Member) -> None:
        with suppress(asyncio.CancelledError):  # by close, or because the loop ends
            while self._store() is not None:
                await asyncio.sleep(await self._tasks.run(member.round()))
        await self._tasks.run(member.leave(patience(self._tasks.timeout)))
