"""Answers while Redis cannot: both rules in this process's memory, behind a small circuit breaker."""

from __future__ import annotations

import logging
import os
import time
from typing import Any, Callable

from ._calls import Call
from ._classify import code_of
from ._errors import CorruptError, PriorityError
from ._lock import Lock
from ._memory import Memory

_MOST_FAILURES = 10  # in a row
_PROBE_SECONDS = 1.0
_LOG_SECONDS = 60.0  # between logged outages: one node of a cluster may fail repeatedly

_log = logging.getLogger("docpriority")


class Fallback:
    """Answers calls that Redis did not. After ten failures in a row, or one of a probe, it answers all calls at once,
    except one a second, which asks Redis. Once Redis has counted a document again, memory forgets its customer, and all
    customers if it had answered all calls."""

    def __init__(self, new_memory: Callable[[], Memory]) -> None:
        self._new_memory = new_memory
        self._begin()

    def _begin(self) -> None:
        """Begins without failures, in this process."""
        self._lock = Lock()
        self._failures = 0
        self._probe_at = self._log_at = self._busy_log_at = 0.0
        self.answers = 0  # of Redis
        self._refuses = False  # to count, as when it is full, though it answers other calls
        self._given_up = b""
        self._logged = False  # whether the log says that Redis does not answer
        self._forget()
        self._pid = os.getpid()  # at the end, because other threads go on once they see it

    def _begin_in_child(self) -> None:
        """Begins anew in a child after a fork: a thread of the parent may have held the locks, and here nobody would
        release them."""
        if self._pid != os.getpid():
            self._begin()

    @property
    def degraded(self) -> bool:
        """Reports whether the latest call to Redis failed."""
        return self._failures > 0

    def asks_redis(self) -> bool:
        self._begin_in_child()
        if self._failures < _MOST_FAILURES:
            return True
        with self._lock:
            now = time.monotonic()
            if now < self._probe_at:
                return False
            self._probe_at = now + _PROBE_SECONDS
            return True

    def gave_up(self, call: Call[Any]) -> None:
        """A caller, or an event loop that was paused, did not wait until Redis could answer, which says nothing about
        Redis: the next call has it probed."""
        self._given_up = call.keys[0]

    def to_probe(self) -> bytes:
        """Returns a key of a customer for whom Redis must be probed, or nothing."""
        key, now = self._given_up, time.monotonic()
        if not key or now < self._probe_at:
            return b""
        self._given_up, self._probe_at = b"", now + _PROBE_SECONDS
        return key

    def succeeded(self, call: Call[Any]) -> None:
        """Redis answered. Memory's counts are forgotten only when Redis counts again: a full Redis still accepts
        ``done``."""
        if self._refuses and not call.counts_for:
            self.answers += 1
            return
        self._answered()
        if call.counts_for and (self._redis_was_away or len(self.memory) > 0):
            with self._lock:
                if self._redis_was_away:
                    self._forget()
                else:  # other customers stay, because their node of a cluster may be away
                    self.memory.forget(call.counts_for)

    def reset(self, call: Call[Any]) -> None:
        """Forgets a customer."""
        self._begin_in_child()
        call.by_memory(self.memory)

    def _answered(self) -> None:
        self.answers += 1
        if self._failures:
            with self._lock:
                if self._logged:
                    _log.warning("docpriority: Redis answers again: levels come from the fleet's numbers")
                self._failures, self._logged, self._refuses = 0, False, False

    def failed(self, call: Call[Any], error: PriorityError, busy: bool = False, decides: bool = False) -> bool:
        """Redis did not answer, a call or a probe that decides by itself. Reports whether memory does. It is no failure
        of Redis if this process was busy."""
        if isinstance(error, CorruptError):
            self._answered()
            return False
        if busy:
            self.gave_up(call)
            now = time.monotonic()
            if now >= self._busy_log_at and not self._logged:
                self._busy_log_at = now + _LOG_SECONDS
                _log.warning("docpriority: this process makes more calls than it can, so levels come from its memory: %s", error)
            return True
        with self._lock:
            self._refuses = bool(call.counts_for) and code_of(error.__cause__) != ""
            self._failures = max(self._failures + 1, _MOST_FAILURES if decides else 0)
            now = time.monotonic()
            self._probe_at = now + _PROBE_SECONDS
            if self._failures >= _MOST_FAILURES:
                self._redis_was_away = True
            if not self._logged and now >= self._log_at:
                self._logged, self._log_at = True, now + _LOG_SECONDS
                _log.warning("docpriority: Redis does not answer, so levels come from the memory of this process: %s", error)
        return True

    def _forget(self) -> None:
        self.memory = self._new_memory()
        self._redis_was_away = False
