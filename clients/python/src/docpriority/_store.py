"""The store for threads."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from datetime import timedelta
from types import TracebackType
from typing import Any, Callable, Optional, TypeVar, Union

from redis import Redis
from redis.cluster import RedisCluster

from ._calls import Call, Calls, checked_timeout
from ._client import client_of
from ._course import Course
from ._decision import Decision
from ._keys import Name
from ._policy import Policy
from ._store_keys import Keys
from ._threads import Threads

T = TypeVar("T")


class Store(Keys):
    """Assigns processing priorities to documents, by counts in Redis.

    All processes that use the same Redis, prefix and policies share the counts, in any
    language. A customer, and a document, is 1 to 512 bytes: a ``str`` stands for its
    UTF-8. A document is known by its id among its customer's.

    ``client`` is a ``redis.Redis`` or a ``redis.cluster.RedisCluster``, and stays the
    caller's. The store takes from it how to connect, and to whom; the connections are its
    own, at most 50 to each server, and ``close`` ends them. So the client's retries and
    timeouts do not matter. The constructor sends nothing.

    prefix
        Begins every key. Not empty, and no braces.
    timeout
        Seconds that any call may take, with all that is in it: names to look up,
        connections to make, further tries. At most a day.
    policy
        The rule for every customer who has no tier.
    tiers, tier_of
        Policies for some of the customers, by the name of the tier, and a function that
        names a customer's tier. Customers of another one, or None, have ``policy``. No tier
        may have more levels than ``policy``. The function is given the customer as the
        caller gave it, and must be safe for concurrent use. What it raises, the caller
        of the method gets, and nothing was sent.
    lease
        Bounds how long a submitted document that nobody finishes counts as pending: whole
        milliseconds, 1 ms to a day.

    Every method may be called by many threads at once, and after a fork. Each raises
    ``TypeError`` or ``ValueError`` for a wrong call, before anything is sent, and else one
    of the three classes of ``PriorityError``:

    - ``NotCounted``: definitely not counted; the call may be made again.
    - ``OutcomeUnknown``: it may have been counted; go on with a default level.
    - ``CorruptCount``: a key holds something else.

    What Redis refuses for a moment, and what could not be sent, is tried again within the
    timeout. ``submit``, ``done`` and ``peek`` are also sent again after a lost answer, which
    does no harm; ``next`` and ``reset`` never are.
    """

    def __init__(
        self,
        client: Union[Redis, RedisCluster],
        *,
        prefix: str = "priority",
        timeout: float = 0.25,
        policy: Policy = Policy(),
        tiers: Optional[Mapping[str, Policy]] = None,
        tier_of: Optional[Callable[[Any], Optional[str]]] = None,
        lease: timedelta = timedelta(days=1),
    ) -> None:
        self._timeout = checked_timeout(timeout)
        self._calls = Calls(prefix, policy, tiers, tier_of, lease)
        self._own = client_of(client, self._timeout)
        self._client = client  # a Sentinel's pool lives as long as its client
        self._threads = Threads(self._own, self._timeout)
        weakref.finalize(self, self._threads.close)

    def next(self, customer: Name) -> Decision:
        """Counts one document by the rule alone. At most once, whatever happens."""
        return self._run(self._calls.next(customer))

    def next_n(self, customer: Name, n: int) -> list[Decision]:
        """Counts ``n`` documents, 1 to 1,000,000, as ``n`` calls of ``next`` do, in one
        round trip: all of them or none."""
        return self._run(self._calls.next_n(customer, n))

    def submit(self, customer: Name, document: Name) -> Decision:
        """Counts a document by its id, and by what is pending: it is pending until ``done``,
        or until its lease ends. A document that is pending is not counted again."""
        return self._run(self._calls.submit(customer, document))

    def submit_n(self, customer: Name, documents: Iterable[Name]) -> list[Decision]:
        """Submits 1 to 100 documents, in order: all of them or none."""
        return self._run(self._calls.submit_n(customer, documents))

    def done(self, customer: Name, document: Name, took: timedelta = timedelta()) -> None:
        """Ends the pending state of a document. A second call does nothing.

        ``took`` is how long the document was worked on, as a ``timedelta``; nothing where
        that is not known. From it the store learns what the customer's documents cost.
        """
        self._run(self._calls.done(customer, document, took))

    def done_n(self, customer: Name, documents: Iterable[Name], took: timedelta = timedelta()) -> None:
        """Ends the pending state of 1 to 1000 documents, which took ``took`` together."""
        self._run(self._calls.done_n(customer, documents, took))

    def peek(self, customer: Name) -> Decision:
        """Returns what holds now, and writes nothing: the level of the count where nothing
        is pending, else the level that the customer's last document has."""
        return self._run(self._calls.peek(customer))

    def reset(self, customer: Name) -> None:
        """Forgets the count, what is pending and what is known of the customer. At most
        once, as ``next``."""
        self._run(self._calls.reset(customer))

    def close(self) -> None:
        """Ends the store's connections. Later calls raise ``NotCounted``."""
        self._threads.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    def _run(self, call: Call[T]) -> T:
        return self._threads.run(Course(call, self._own.nodes, self._timeout))
