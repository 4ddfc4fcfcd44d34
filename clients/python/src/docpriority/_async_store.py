"""The store for asyncio."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from types import TracebackType
from typing import Any, Callable, Optional, TypeVar, Union

from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster

from ._calls import Call, Calls, checked_timeout
from ._client import async_client_of
from ._course import Course
from ._decision import Decision, Ended, State
from ._fallback import Attempt
from ._keys import Name
from ._member import MemberTask
from ._policy import Policy
from ._repair import FallbackTask, checked_fallback
from ._store_keys import Keys
from ._tasks import Tasks

T = TypeVar("T")
Own = TypeVar("Own", bound="AsyncStore")


class AsyncStore(Keys):
    """A ``Store`` whose methods are coroutines, on a ``redis.asyncio.Redis`` or a
    ``redis.asyncio.RedisCluster``.

    It has the options, methods and errors of ``Store``. Every method may be called by
    many tasks of one event loop at once; another loop makes connections of its own. A call
    that is cancelled may have been counted; its connection is not used again. A child after
    a fork needs a store of its own. With ``join``, a task in the event loop that first uses
    the store does what the thread of a ``Store`` does.
    """

    _fallback: Optional[FallbackTask] = None

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
        self._timeout = checked_timeout(timeout)
        self._calls = Calls(prefix, policy, tiers, tier_of, lease, overrides or join)
        self._own = async_client_of(client, self._timeout)
        self._client = client  # a Sentinel's pool lives as long as its client
        self._tasks = Tasks(self._own, self._timeout)
        if checked_fallback(fallback, join):
            self._fallback = FallbackTask(self, self._calls, self._tasks, self._own.nodes)
        self._member = MemberTask(self, self._calls, self._tasks, self._own.nodes, name, self._fallback) if join else None

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

    @property
    def degraded(self) -> bool:
        """See ``Store.degraded``."""
        return self._fallback is not None and self._fallback.here().degraded

    async def close(self) -> None:
        """Sends what is owed, as ``Store.close`` does, and ends the store's connections in this
        event loop. Later calls raise ``NotCountedError``, in any loop."""
        if self._fallback is not None:
            await self._fallback.close()
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
        if self._member is not None:
            self._member.begin()
        try:
            call = make()
            documents = call.documents
            if self._fallback is None:
                return await self._tasks.run(Course(call, self._own.nodes, self._timeout))
            return await self._with_fallback(call, Attempt(self._fallback.here(), call))
        except Exception as error:
            self._calls.failed(error, documents)
            raise

    async def _with_fallback(self, call: Call[T], attempt: Attempt[T]) -> T:
        if attempt.asks_redis:
            try:
                result = await self._tasks.run(Course(call, self._own.nodes, self._timeout))
            except BaseException as error:
                if not attempt.failed(error):
                    raise
            else:
                attempt.succeeded()
                return result
        return attempt.by_memory()
