"""A lock that no exception of a signal's handler keeps locked for ever."""

from __future__ import annotations

import threading
from contextlib import suppress

_LOST_AFTER = 1.0  # seconds; what is done under a lock takes much less


class Lock:
    """A lock that its thread may take again, as a signal's handler that calls the store does.

    An exception of such a handler can leave any lock of Python locked, if it comes between a block and the lock's
    release (cpython#130279). Whoever waits for too long takes a new lock.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        while not (lock := self._lock).acquire(timeout=_LOST_AFTER):
            if self._lock is lock:
                self._lock = threading.RLock()

    def __exit__(self, *raised: object) -> None:
        with suppress(RuntimeError):  # another thread has taken a new one
            self._lock.release()
