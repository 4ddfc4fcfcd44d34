"""The connections to one server: which are free, and when a new one is wanted.

No locks and no waiting are here: threads and tasks wait in their own ways.
"""

from __future__ import annotations

import os
from typing import Generic, Optional, Protocol, TypeVar
from weakref import ref

from ._course import Closed, Unsent

_MOST_DIALS = 16  # under way at a time
_LONGEST_IDLE = 30.0  # seconds; some networks forget a quiet connection without a word


class Connection(Protocol):
    @property
    def usable(self) -> bool:
        """It is open, and owes nothing."""

    def close(self) -> None: ...


C = TypeVar("C", bound=Connection)
T = TypeVar("T")


class Dial:
    """A connection that is being made, for as long as somebody makes it."""

    def __init__(self, began: float) -> None:
        self.began = began


class _Held(Generic[T]):
    """What callers hold. A handler of signals may raise between any two of their steps, so
    this knows of it weakly: what they have lost is gone by itself. A WeakSet is told of that
    by a callback, in which the handler may raise too."""

    def __init__(self) -> None:
        self._known: dict[int, ref[T]] = {}

    def add(self, item: T) -> None:
        self._known[id(item)] = ref(item)

    def discard(self, item: T) -> None:
        self._known.pop(id(item), None)

    def items(self) -> list[T]:
        items = [item for item in [known() for known in self._known.values()] if item is not None]
        self._known = {id(item): ref(item) for item in items}
        return items


class Shelf(Generic[C]):
    """Holds those that are free, and knows of those that are in use or being made."""

    def __init__(self, where: str, most: int, patience: float) -> None:
        self._where = where
        self._most = most
        self._patience = patience  # seconds, after which a dial is not counted on
        self._free: list[tuple[C, float]] = []  # the last one used is the last one here
        self._in_use: _Held[C] = _Held()
        self._dials: _Held[Dial] = _Held()
        self.failures = 0  # dials that came to nothing
        self._trouble: Optional[BaseException] = None  # why the last of them did
        self._closed = False

    def take(self, now: float, deadline: float, failures: int) -> Optional[C]:
        """Returns a free connection, or None where one may come yet.

        Raises Unsent after the deadline, and where a dial has come to nothing since there
        were so many failures.
        """
        if self._closed:
            raise Closed("the store is closed")
        while self._free and now < deadline:
            connection, since = self._free.pop()
            if now - since < _LONGEST_IDLE and connection.usable:
                self._in_use.add(connection)
                return connection
            connection.close()
        if self.failures != failures or now >= deadline:
            raise Unsent(self._why()) from self._trouble
        return None

    def _why(self) -> str:
        """Why there is no connection."""
        if self._trouble is not None:
            return f"no connection to {self._where}: {_reason(self._trouble)}"
        if len(self._free) + len(self._in_use.items()) >= self._most:
            return f"all {self._most} connections to {self._where} are in use"
        return f"no connection to {self._where} in time"

    def dial(self, now: float, waiting: int) -> Optional[Dial]:
        """Begins a dial, if so many who wait need one more. Whoever makes it holds it."""
        dials = self._dials.items()
        young = sum(1 for dial in dials if now - dial.began < self._patience)
        connections = len(self._free) + len(self._in_use.items()) + len(dials)
        if young >= waiting or len(dials) >= _MOST_DIALS or connections >= self._most:
            return None
        dial = Dial(now)
        self._dials.add(dial)
        return dial

    def dial_succeeded(self, dial: Dial, connection: C, now: float) -> None:
        """A dial has come to a connection, which is free now."""
        self._dials.discard(dial)
        self._trouble = None
        self.give(connection, now)

    def dial_failed(self, dial: Dial, trouble: BaseException) -> None:
        """A dial has come to nothing."""
        self._dials.discard(dial)
        self.failures += 1
        self._trouble = trouble

    def give(self, connection: C, now: float) -> None:
        """A connection that was taken is free again."""
        self._in_use.discard(connection)
        if self._closed:
            connection.close()
        else:
            self._free.append((connection, now))

    def drop(self, connection: C) -> None:
        """A connection that was taken is of no more use."""
        self._in_use.discard(connection)
        connection.close()

    def drop_free(self) -> None:
        """What befell one connection may have befallen those that are free."""
        while self._free:
            self._free.pop()[0].close()

    def drop_idle(self, now: float) -> None:
        """Those that were free for so long that nobody would be given them."""
        while self._free and now - self._free[0][1] >= _LONGEST_IDLE:
            self._free.pop(0)[0].close()

    def close(self) -> None:
        self._closed = True
        self.drop_free()


def _reason(trouble: BaseException) -> str:
    """Says why there is no connection. What redis-py says of asyncio's errors is a number."""
    cause = trouble.__cause__ or trouble.__context__
    if isinstance(cause, OSError) and cause.errno and cause.errno > 0:
        return os.strerror(cause.errno)
    return str(trouble)
