"""The stores for threads and for asyncio."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Iterable
from datetime import timedelta
from typing import Callable, Optional, TypeVar, Union

import redis
import redis.asyncio
import redis.asyncio.cluster
import redis.cluster

from ._base import Base
from ._calling import Tasks, Threads
from ._calls import Call
from ._course import Deadline
from ._decision import Decision, Ended, State
from ._dones import Dones
from ._keys import Document, Name
from ._member import MemberTask, MemberThread, patience

T = TypeVar("T")
Own = TypeVar("Own", bound="Store")
OwnAsync = TypeVar("OwnAsync", bound="AsyncStore")


class Store(Base[Union[redis.Redis, redis.cluster.RedisCluster]]):
    """Assigns processing levels to documents, by numbers in Redis.

    All processes that use the same Redis, prefix and policies share the numbers, in any language. Customers and
    document ids are 1 to 512 bytes; a ``str`` is encoded as UTF-8. An id is unique within its customer.

    ``client`` is a ``redis.Redis`` or a ``redis.cluster.RedisCluster``, and is left unchanged. The store takes its
    addresses and connection settings, and opens separate connections, at most 50 to each server, which ``close`` ends.
    So the client's retries do not matter. The constructor sends nothing.

    prefix
        Begins every key. Not empty, and no braces.
    timeout
        How long a call takes at most, retries included: a ``timedelta``, at most a day, or a number of seconds, at most
        60. Connecting may take longer, in the background, as long as the client's own timeouts say.
    policy
        The numbers of both rules, for every customer without a tier.
    tiers, tier_of
        Policies by the name of a tier, none with more levels than ``policy``, and a function that names a customer's
        tier; None, or any other name, means ``policy``. The function gets the customer as passed by the caller, and
        must be safe for concurrent use. If it raises, so does the call, and nothing is sent.
    lease
        Bounds how long a submitted document without a ``done`` counts as pending: whole milliseconds, 1 s to a day.
    overrides
        Whether to apply the overrides that operators set for single customers: each decision then reads one more key.
        A member always does.
    accounts
        Whether a customer ``"acme/mary"`` is the user mary of the account acme, split at the first slash: ``submit``
        counts both, and ``next`` the user. Set it, alike in all processes, if customers can create ids: else one who
        floods by a hundred ids is a hundred customers. Overrides are then read, and one of acme holds for its users who
        have none.
    join
        Whether to be a member of the fleet: to follow the policies that operators set, which are read twice a second,
        and to report every five seconds what the calls came to. ``last`` does not change, and policies with more levels
        are not used. A daemon thread in each process does this from the first call on, and no call waits for it. What
        operators should know is logged by the logger ``docpriority``.
    name
        What operators call this process, at most 100 bytes. By default, the host's name and the process's id.
    fallback
        Whether this process decides by itself while Redis does not answer, as the README says; None means the value of
        ``join``. ``degraded`` is then set. ``reset``, and a key that holds something else, still raise.

    Every method may be called by many threads at once, and after a fork. Each raises ``TypeError`` or ``ValueError``
    for a wrong call, before anything is sent, and otherwise one of the three classes of ``PriorityError``. Calls that
    Redis refuses temporarily, or that could not be sent, are retried within the timeout. ``submit``, ``done`` and
    ``peek`` are also resent after a lost reply, which does no harm; ``next`` and ``reset`` never are.
    """

    def _connect(self, client: Union[redis.Redis, redis.cluster.RedisCluster], join: bool, name: str) -> None:
        self._threads = Threads(client, self._timeout)
        self._nodes = self._threads.nodes
        self._dones = Dones(self._threads, self._fallback.succeeded) if self._fallback is not None else None
        self._member = MemberThread(self._calls, self._threads, name, self._fallback) if join else None
        self._end = weakref.finalize(self, _end, self._dones, self._member, self._threads)

    def next(self, customer: Name) -> Decision:
        """Decides about one document by the customer's count, and counts it: at most once, whatever happens."""
        return self._run(lambda: self._calls.next_n(customer, 1, "next"))[0]

    def next_n(self, customer: Name, n: int) -> list[Decision]:
        """Counts ``n`` documents, 1 to 1,000,000, like ``n`` calls of ``next``, in one round trip: all of them or
        none."""
        return self._run(lambda: self._calls.next_n(customer, n))

    def submit(self, customer: Name, document: Name, *, cost: float = 0, delay: Union[timedelta, float] = 0) -> Decision:
        """Decides about a document by its load, and makes it pending until ``done``, or until its lease expires.
        Submitting a pending document again renews its lease, counts nothing, and returns the level that it has.

        ``cost`` is how much work the document is, in any unit that all documents share: pages, tokens, bytes. It is
        compared with what is usual in this process: the geometric mean of at most a thousand customers without the
        cheapest fifth and the dearest fifth, once there are three. Each has the median of their latest three documents.
        0 means that it is not known: then the document costs what the customer's documents took, by ``done``. A cost
        that is negative, infinite or not a number is a ``ValueError``.

        ``delay`` is how much later the document is due: a ``timedelta`` or a number of seconds, at most 365 days. Pass
        the delay that its queue gets: the document counts from when it is due, and its level is by what is pending then.
        """
        return self._run(lambda: self._calls.submit_n(customer, [Document(document, cost, delay)], "submit"))[0]

    def submit_n(self, customer: Name, documents: Iterable[Union[Document, Name]]) -> list[Decision]:
        """Submits 1 to 100 documents, in order: all of them or none. One without a cost and a delay may be its id
        alone."""
        return self._run(lambda: self._calls.submit_n(customer, documents))

    def done(self, customer: Name, document: Name, took: timedelta = timedelta()) -> Optional[Ended]:
        """Ends the pending state of a document. Returns how long it was pending and its level, or None if it was not
        pending, as in a second call, or when the store resends a call whose reply was lost, or if Redis does not answer
        and the fallback tells it later.

        ``took`` is the processing time, if known. It is compared like a cost, with the times passed to ``done`` in this
        process, and becomes the cost of the customer's documents that are submitted without one.
        """
        ended = self._run(lambda: self._calls.done_n(customer, [document], took, "done"))
        return ended[0] if ended else None

    def done_n(self, customer: Name, documents: Iterable[Name], took: timedelta = timedelta()) -> list[Ended]:
        """Ends the pending state of 1 to 1000 documents, which took ``took`` together. Returns those that were pending,
        in order."""
        return self._run(lambda: self._calls.done_n(customer, documents, took))

    def peek(self, customer: Name) -> State:
        """Returns what is known about a customer, and writes nothing."""
        return self._run(lambda: self._calls.peek(customer), documents=0)

    def reset(self, customer: Name) -> None:
        """Forgets everything known about the customer. Like ``next``, it is sent at most once."""
        self._run(lambda: self._calls.reset(customer), documents=0)

    def close(self) -> None:
        """Tells Redis of each ``done`` that it has not answered, removes the member's report and ends the store's
        connections. It waits for Redis for twice the timeout, at least 0.5 s and at most 3 s. Later calls raise
        ``NotCountedError``. The end of the program does the same, but ``os._exit`` does not."""
        self._closed = True
        self._end()

    def __enter__(self: Own) -> Own:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _run(self, make: Callable[[], Call[T]], documents: int = 1) -> T:
        if self._member is not None:
            self._member.begin()
        probe = self._probe()
        if probe is not None:
            self._threads.start(self._threads.run_steps, probe)
        return self._threads.run(self._steps(make, documents))


def _end(dones: Optional[Dones], member: Optional[MemberThread], threads: Threads) -> None:
    deadline = Deadline(patience(threads.timeout))
    if member is not None:
        member.stop()
    if dones is not None:
        threads.run(dones.flush(deadline.timeout))
    if member is not None:
        member.join(deadline)
    threads.close()


class AsyncStore(Base[Union[redis.asyncio.Redis, redis.asyncio.cluster.RedisCluster]]):
    """A ``Store`` whose methods are coroutines, on a ``redis.asyncio.Redis`` or a ``redis.asyncio.RedisCluster``.

    It has the options, methods and errors of ``Store``. Many tasks of one event loop may call it at once; another loop
    opens other connections, which end with it. A cancelled call may have been counted; its connection is not reused. A
    child after a fork needs another store. With ``join``, a task in the event loop that first uses the store does what
    the thread of a ``Store`` does.
    """

    def _connect(self, client: Union[redis.asyncio.Redis, redis.asyncio.cluster.RedisCluster], join: bool, name: str) -> None:
        self._tasks = Tasks(client, self._timeout)
        self._nodes = self._tasks.nodes
        self._dones = Dones(self._tasks, self._fallback.succeeded) if self._fallback is not None else None
        self._member = MemberTask(self, self._calls, self._tasks, name, self._fallback) if join else None

    async def next(self, customer: Name) -> Decision:
        return (await self._run(lambda: self._calls.next_n(customer, 1, "next")))[0]

    async def next_n(self, customer: Name, n: int) -> list[Decision]:
        return await self._run(lambda: self._calls.next_n(customer, n))

    async def submit(self, customer: Name, document: Name, *, cost: float = 0, delay: Union[timedelta, float] = 0) -> Decision:
        return (await self._run(lambda: self._calls.submit_n(customer, [Document(document, cost, delay)], "submit")))[0]

    async def submit_n(self, customer: Name, documents: Iterable[Union[Document, Name]]) -> list[Decision]:
        return await self._run(lambda: self._calls.submit_n(customer, documents))

    async def done(self, customer: Name, document: Name, took: timedelta = timedelta()) -> Optional[Ended]:
        ended = await self._run(lambda: self._calls.done_n(customer, [document], took, "done"))
        return ended[0] if ended else None

    async def done_n(self, customer: Name, documents: Iterable[Name], took: timedelta = timedelta()) -> list[Ended]:
        return await self._run(lambda: self._calls.done_n(customer, documents, took))

    async def peek(self, customer: Name) -> State:
        return await self._run(lambda: self._calls.peek(customer), documents=0)

    async def reset(self, customer: Name) -> None:
        await self._run(lambda: self._calls.reset(customer), documents=0)

    async def close(self) -> None:
        """Does what ``Store.close`` does, for all event loops: later calls raise ``NotCountedError``, in any loop. Call it
        once, in the last loop; the connections of a loop end with it."""
        self._closed = True
        dones = [self._tasks.run(self._dones.flush(patience(self._timeout)))] if self._dones is not None else []
        member = [self._member.close()] if self._member is not None else []
        await asyncio.gather(*dones, *member)
        await self._tasks.close()

    async def __aenter__(self: OwnAsync) -> OwnAsync:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()

    async def _run(self, make: Callable[[], Call[T]], documents: int = 1) -> T:
        if self._member is not None and not self._closed:
            self._member.begin()
        probe = self._probe()
        if probe is not None:
            self._tasks.start(self._tasks.run_steps, probe)
        return await self._tasks.run(self._steps(make, documents))
