"""The store for asyncio."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from types import TracebackType
from typing import Any, Callable, Optional, TypeVar, Union

from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster

from ._base import Base
from ._calls import Call
from ._connections import Tasks
from ._decision import Decision, Ended, State
from ._keys import Name
from ._member import MemberTask
from ._policy import Policy

T = TypeVar("T")
Own = TypeVar("Own", bound="AsyncStore")


class AsyncStore(Base):
    """A ``Store`` whose methods are coroutines, on a ``redis.asyncio.Redis`` or a
    ``redis.asyncio.RedisCluster``.

    It has the options, methods and errors of ``Store``. Every method may be called by
    many tasks of one event loop at once; another loop makes connections of its own. A call
    that is cancelled may have been counted; its connection is not used again. A child after
    a fork needs a store of its own. With ``join``, a task in the event loop that first uses
    the store does what the thread of a ``Store`` does.
    """

    def __init__(
        self,
        client: Union[Redis, RedisCluster],
        *,
        prefix: str = "priority",
        timeout: Union[timedelta, float] = 0.25,
        policy: Policy = Policy(),
        tiers: Optional[Mapping[str, Policy]] = None,
        tier_of: Optional[Callable[[Any], Optional[str]]] = None,
        lease: timedelta = timedelta(days=1),
        overrides: bool = False,
        join: bool = False,
        name: str = "",
        fallback: Optional[bool] = None,
    ) -> None:
        self._set_up(prefix, timeout, policy, tiers, tier_of, lease, overrides, join, name, fallback)
        self._tasks = Tasks(client, self._timeout)
        self._nodes = self._tasks.nodes
        self._member = MemberTask(self, self._calls, self._tasks, name, self._fallback) if join else None

    async def next(self, customer: Name) -> Decision:
        """See ``Store.next``."""
        return await self._run(lambda: self._calls.next(customer))

    async def next_n(self, customer: Name, n: int) -> list[Decision]:
        """See ``Store.next_n``."""
        return await self._run(lambda: self._calls.next_n(customer, n))

    async def submit(self, customer: Name, document: Name, cost: float = 0) -> Decision:
        """See ``Store.submit``."""
        return await self._run(lambda: self._calls.submit(customer, document, cost))

    async def submit_n(self, customer: Name, documents: Iterable[Name], costs: Optional[Iterable[float]] = None) -> list[Decision]:
        """See ``Store.submit_n``."""
        return await self._run(lambda: self._calls.submit_n(customer, documents, costs))

    async def done(self, customer: Name, document: Name, took: timedelta = timedelta()) -> Optional[Ended]:
        """See ``Store.done``."""
        return await self._run(lambda: self._calls.done(customer, document, took))

    async def done_n(self, customer: Name, documents: Iterable[Name], took: timedelta = timedelta()) -> list[Ended]:
        """See ``Store.done_n``."""
        return await self._run(lambda: self._calls.done_n(customer, documents, took))

    async def peek(self, customer: Name) -> State:
        """See ``Store.peek``."""
        return await self._run(lambda: self._calls.peek(customer), documents=0)

    async def reset(self, customer: Name) -> None:
        """See ``Store.reset``."""
        await self._run(lambda: self._calls.reset(customer), documents=0)

    async def close(self) -> None:
        """Removes the member's report and ends the store's connections in this event loop. Later calls raise
        ``NotCountedError``, in any loop."""
        self._closed = True
        if self._member is not None:
            await self._member.close()
        await self._tasks.close()

    async def __aenter__(self: Own) -> Own:
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        await self.close()

    async def _run(self, make: Callable[[], Call[T]], documents: int = 1) -> T:
        if self._member is not None and not self._closed:
            self._member.begin()
        return await self._tasks.run(self._steps(make, documents))
