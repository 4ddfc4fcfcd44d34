"""Stores without Redis, for the tests of programs that use this package. The README has an example."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Callable, Optional, TypeVar

from ._base import Base
from ._calls import Call, Calls
from ._decision import Bounds
from ._errors import NotCountedError
from ._keys import Name, bytes_of
from ._memory import Memory
from ._policy import Policy
from ._store import AsyncStore, Store

__all__ = ["AsyncMemoryStore", "MemoryStore"]

T = TypeVar("T")

_MILLISECOND = timedelta(milliseconds=1)


class _InMemory(Base[Any]):
    """What both stores have in common."""

    def __init__(
        self,
        *,
        policy: Policy = Policy(),
        tiers: Optional[Mapping[str, Policy]] = None,
        tier_of: Optional[Callable[[Any], Optional[str]]] = None,
        lease: timedelta = timedelta(days=1),
        accounts: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._calls = Calls("priority", policy, tiers, tier_of, lease, True, accounts)
        self._ahead = 0  # milliseconds
        self._memory = Memory(self.last, self._calls.lease, lambda: int(clock() * 1000) + self._ahead, accounts)

    def advance(self, by: timedelta) -> None:
        """Lets time pass."""
        if by < timedelta():
            raise ValueError(f"time does not go back by {-by}")
        self._ahead += by // _MILLISECOND

    def set_override(self, customer: Name, bounds: Optional[Bounds], ends_in: Optional[timedelta] = None) -> None:
        """Sets a customer's override, as operators could; None removes it. It ends after ``ends_in``, if given."""
        name = bytes_of("customer", customer)
        if ends_in is not None and ends_in < timedelta():
            raise ValueError(f"an override cannot end in {ends_in}")
        if bounds is None:
            self._memory.remove_override(name)
        else:
            self._memory.set_override(name, bounds.earliest, bounds.latest, math.inf if ends_in is None else ends_in // _MILLISECOND)

    def _answer(self, call: Call[T]) -> T:
        if self._closed:
            raise NotCountedError(f"{call.operation} {call.keys[0]!r}: the store is closed")
        return call.by_memory(self._memory)


class MemoryStore(_InMemory, Store):
    """A ``Store`` whose numbers live in this object, and that needs no Redis.

    It decides like a ``Store``. It holds at most 100,000 customers and pending documents together; beyond that,
    it evicts the least recently active customers. A child after a fork needs another store.

    policy, tiers, tier_of, lease, accounts
        As ``Store``'s.
    clock
        Returns seconds. Default: ``time.monotonic``. ``lambda: 0.0`` stands still, so that time passes only by
        ``advance``.
    """

    def close(self) -> None:
        """Later calls raise ``NotCountedError``."""
        self._closed = True

    def _run(self, make: Callable[[], Call[T]], documents: int = 1) -> T:
        return self._answer(make())


class AsyncMemoryStore(_InMemory, AsyncStore):
    """A ``MemoryStore`` with the methods of an ``AsyncStore``."""

    async def close(self) -> None:
        """Later calls raise ``NotCountedError``."""
        self._closed = True

    async def _run(self, make: Callable[[], Call[T]], documents: int = 1) -> T:
        return self._answer(make())
