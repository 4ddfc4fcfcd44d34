"""The background of a fallback: it probes a Redis that fails, and pays the Dones that are owed."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import sys
import threading
import time
import weakref
from contextlib import suppress
from typing import Any, Callable, Optional

from . import _fallback
from ._calls import Call, Calls
from ._course import Course
from ._errors import PriorityError
from ._fallback import Fallback
from ._memory import Overrides
from ._nodes import Nodes
from ._tasks import Tasks
from ._threads import Threads

_TIMEOUT = 1.0  # seconds, of a call of the background
_CLOSE_SECONDS = 5.0  # in which close pays what is owed

_log = logging.getLogger("docpriority")


def checked_fallback(fallback: Optional[bool], join: bool) -> bool:
    """Returns whether there is a fallback, or raises."""
    if fallback is not None and not isinstance(fallback, bool):
        raise TypeError(f"fallback is a bool or None, not {type(fallback).__name__}")
    return join if fallback is None else fallback


def _pause() -> float:
    """A fleet's processes must not ask all at once."""
    return _fallback.PROBE_SECONDS * random.uniform(0.9, 1.1)


def _log_unpaid(fallback: Fallback) -> None:
    if len(fallback.dones):
        _log.warning("%d documents that are done stay pending in Redis until their leases end: it did not answer", len(fallback.dones))


def _at_the_end_of_a_child(close: weakref.WeakMethod[Callable[[], None]]) -> None:
    """Sees to it that a child of multiprocessing pays what it owes: it ends without the exit handlers of a program."""

    def pay() -> None:
        method = close()
        if method is not None:
            method()

    process, util = (sys.modules.get("multiprocessing." + name) for name in ("process", "util"))
    if process is not None and util is not None and process.parent_process() is not None:
        util.Finalize(None, pay, exitpriority=0)


class FallbackThreads:
    """A fallback for threads, in each process that uses the store. A daemon thread runs while
    there is something to do. It does not know the store, which may be forgotten before it is closed."""

    def __init__(self, calls: Calls, threads: Threads, nodes: Nodes) -> None:
        self._calls, self._threads, self._nodes = calls, threads, nodes
        self._seen = calls.seen = Overrides()
        self._by_process: dict[int, _RepairThread] = {}
        self._closed = False

    def here(self) -> Fallback:
        """Returns the fallback of this process: its parent pays what it owes itself."""
        pid = os.getpid()
        repair = self._by_process.get(pid)
        if repair is None:
            repair = self._by_process.setdefault(pid, _RepairThread(self._calls, self._seen, self._nodes.are_many, self._run))
            _at_the_end_of_a_child(weakref.WeakMethod(repair.close))
        repair.fallback.closed = self._closed
        return repair.fallback

    def close(self) -> None:
        """Pays what is owed."""
        self._closed = True
        repair = self._by_process.get(os.getpid())
        if repair is not None:
            repair.fallback.closed = True  # who comes now is told if Redis does not answer
            repair.close()

    def _run(self, call: Call[Any], timeout: float) -> None:
        self._threads.run(Course(call, self._nodes, timeout))


class _RepairThread:
    def __init__(self, calls: Calls, seen: Overrides, are_many: bool, run: Callable[[Call[Any], float], None]) -> None:
        self.fallback = Fallback(calls, seen, are_many, self._wake)
        self._run_call = run
        self._lock = threading.RLock()
        self._thread: Optional[threading.Thread] = None
        self._is_awake = False
        self._stopped = threading.Event()

    def _wake(self) -> None:
        if self._is_awake:
            return
        with self._lock:
            if self._stopped.is_set() or self._thread is not None and self._thread.is_alive():
                return
            self._thread = threading.Thread(target=self._work, name="docpriority-fallback", daemon=True)
            with suppress(RuntimeError):  # there are too many threads now, or the program ends
                self._thread.start()
                self._is_awake = True

    def _work(self) -> None:
        try:
            while not self._stopped.wait(_pause()):
                self._do(None)
                with self._lock:
                    self._is_awake = False  # who wakes it from now on waits for the lock
                    if not self.fallback.busy:
                        self._thread = None
                        return
                    self._is_awake = True
        finally:
            self._is_awake = False

    def _do(self, deadline: Optional[float]) -> None:
        steps = self.fallback.round()
        error: Optional[PriorityError] = None
        call = next(steps, None)
        while call is not None:
            left = _TIMEOUT if deadline is None else min(deadline - time.monotonic(), _TIMEOUT)
            if left <= 0 or deadline is None and self._stopped.is_set():
                return steps.close()
            try:
                self._run_call(call, left)
                error = None
            except PriorityError as failure:
                error = failure
            try:
                call = steps.send(error)
            except StopIteration:
                return

    def close(self) -> None:
        with self._lock:
            if self._stopped.is_set():
                return
            self._stopped.set()
            thread = self._thread
        deadline = time.monotonic() + _CLOSE_SECONDS
        if thread is not None and thread.is_alive() and thread is not threading.current_thread():
            thread.join(_CLOSE_SECONDS)  # for the call under way
        if len(self.fallback.dones):
            self._do(deadline)
        _log_unpaid(self.fallback)


class FallbackTask:
    """A fallback for tasks. A task runs now and then while there is something to do, in the event
    loop that first needs it, or in another one while that does not run."""

    def __init__(self, store: Any, calls: Calls, tasks: Tasks, nodes: Nodes) -> None:
        self._store = weakref.ref(store)
        self._tasks, self._nodes = tasks, nodes
        calls.seen = Overrides()
        self._fallback = Fallback(calls, calls.seen, nodes.are_many, self._wake)
        self._lock = threading.RLock()
        self._awake: Optional[asyncio.AbstractEventLoop] = None
        self._turn = 0  # of the loop that is awake
        self._task: Optional[asyncio.Task[None]] = None

    def here(self) -> Fallback:
        return self._fallback

    def _wake(self) -> None:
        if self._awake is not None and self._awake.is_running():
            return
        with self._lock:
            if self._fallback.closed or self._awake is not None and self._awake.is_running():
                return
            try:
                self._awake = asyncio.get_running_loop()
            except RuntimeError:  # a call that ends after its loop
                return
            self._turn += 1
            # Not a task that sleeps: a loop that ends complains of those which nobody awaits.
            self._awake.call_later(_pause(), self._begin, self._turn)

    def _begin(self, turn: int) -> None:
        if turn == self._turn and not self._fallback.closed and self._store() is not None:
            self._task = asyncio.get_running_loop().create_task(self._round(turn))

    async def _round(self, turn: int) -> None:
        try:
            await self._do(None)
        finally:
            with self._lock:
                if turn == self._turn:  # else this loop stood, and another one goes on
                    self._awake = self._task = None  # who wakes it from now on waits for the lock
                    if self._fallback.busy:
                        self._wake()

    async def _do(self, deadline: Optional[float]) -> None:
        steps = self._fallback.round()
        error: Optional[PriorityError] = None
        call = next(steps, None)
        try:
            while call is not None:
                left = _TIMEOUT if deadline is None else min(deadline - time.monotonic(), _TIMEOUT)
                if left <= 0:
                    return
                try:
                    await self._tasks.run(Course(call, self._nodes, left))
                    error = None
                except PriorityError as failure:
                    error = failure
                try:
                    call = steps.send(error)
                except StopIteration:
                    return
        finally:
            steps.close()

    async def close(self) -> None:
        """Pays what is owed."""
        with self._lock:
            if self._fallback.closed:
                return
            self._fallback.closed = True
            task = self._task
        if task is not None and not task.done():
            if task.get_loop() is asyncio.get_running_loop():
                task.cancel()
                await asyncio.wait([task])
            else:
                with suppress(RuntimeError):  # it is closed
                    task.get_loop().call_soon_threadsafe(task.cancel)
        if len(self._fallback.dones):
            await self._do(time.monotonic() + _CLOSE_SECONDS)
        _log_unpaid(self._fallback)
