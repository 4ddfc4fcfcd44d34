"""The connections to one server: which are free, and when a new one is wanted.

No locks and no waiting are here: threads and tasks wait in their own ways.
"""

from __future__ import annotations

import os
from typing import Generic, Optional, Protocol, TypeVar

_MOST_DIALS = 16  # under way at a time
_LONGEST_IDLE = 30.0  # seconds; some networks forget a quiet connection without a word


class Connection(Protocol):
    @property
    def usable(self) -> bool:
        """It is open, and owes nothing."""

    def close(self) -> None: ...


C = TypeVar("C", bound=Connection)


class Shelf(Generic[C]):
    def __init__(self, where: str, most: int, patience: float) -> None:
        self._where = where
        self._most = most
        self._patience = patience  # seconds, after which a dial is not counted on
        self._free: list[tuple[C, float]] = []  # the last one used is the last one here
        self._open = 0  # those in use and those being dialed too
        self._dials: dict[object, float] = {}  # when each began
        self.failures = 0  # dials that came to nothing
        self.trouble: Optional[BaseException] = None  # why the last of them did
        self.closed = False

    @property
    def why(self) -> str:
        """Why there is no connection."""
        if self.trouble is not None:
            return f"no connection to {self._where}: {_reason(self.trouble)}"
        if self._open - len(self._dials) >= self._most:
            return f"all {self._most} connections to {self._where} are in use"
        return f"no connection to {self._where} in time"

    def take(self, now: float) -> Optional[C]:
        """Returns a free connection, if there is one."""
        while self._free:
            connection, since = self._free.pop()
            if now - since < _LONGEST_IDLE and connection.usable:
                return connection
            self.drop(connection)
        return None

    def dial(self, now: float, waiting: int) -> Optional[object]:
        """Begins a dial, if so many who wait need one more. Returns its token."""
        young = sum(1 for began in self._dials.values() if now - began < self._patience)
        if young >= waiting or len(self._dials) >= _MOST_DIALS or self._open >= self._most:
            return None
        token = object()
        self._dials[token] = now
        self._open += 1
        return token

    def dialed(self, token: object, connection: C, now: float) -> None:
        """A dial has come to a connection, which is free now."""
        del self._dials[token]
        self.trouble = None
        self.give(connection, now)

    def undialed(self, token: object, trouble: BaseException) -> None:
        """A dial has come to nothing."""
        del self._dials[token]
        self._open -= 1
        self.failures += 1
        self.trouble = trouble

    def give(self, connection: C, now: float) -> None:
        """A connection that was taken is free again."""
        if self.closed:
            self.drop(connection)
        else:
            self._free.append((connection, now))

    def drop(self, connection: C) -> None:
        """A connection that was taken is of no more use."""
        self._open -= 1
        connection.close()

    def drop_free(self) -> None:
        """What befell one connection may have befallen those that are free."""
        while self._free:
            self.drop(self._free.pop()[0])

    def close(self) -> None:
        self.closed = True
        self.drop_free()


def _reason(trouble: BaseException) -> str:
    """Says why there is no connection. What redis-py says of asyncio's errors is a number."""
    cause = trouble.__cause__ or trouble.__context__
    if isinstance(cause, OSError) and cause.errno and cause.errno > 0:
        return os.strerror(cause.errno)
    return str(trouble)
