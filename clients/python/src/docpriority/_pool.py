"""Pools of connections, alike for threads and for tasks of asyncio."""

from __future__ import annotations

import inspect
from collections import deque
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Callable, Union
from weakref import WeakSet

from redis.exceptions import RedisError, ResponseError

from ._classify import Failure, Refused, Unanswered, Unsent
from ._connections import unsent
from ._course import Address, Commands, Deadline

if TYPE_CHECKING:
    from ._calling import Calling

# What redis-py raises: the last two for replies that are none, and for an event loop that was closed. Other
# exceptions, such as a time limit raised in a signal's handler, are not caught.
ERRORS = (RedisError, OSError, ValueError, RuntimeError)


@lru_cache(maxsize=None)
def _verbatim(parser_class: Any) -> Any:
    """Returns a parser of redis-py that leaves the words of Redis's errors as they are."""
    return type(parser_class.__name__, (parser_class,), {"parse_error": staticmethod(ResponseError)})


class Link:
    """A connection of redis-py, which serves one call at a time."""

    is_open: Callable[[], bool]  # whether the other end has not closed it while it was idle
    close: Callable[[], None]
    was_idle = False  # before the call that uses it
    send_failed: type[Failure] = Unanswered  # a part of the commands may have been sent

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        connection.set_parser(_verbatim(connection._parser.__class__))

    async def connect(self) -> None:
        await _result(self.connection.connect())

    async def exchange(self, commands: Commands, deadline: Deadline) -> Any:
        """Sends commands and returns the reply to the last, the first that is an error, or why there is none."""
        connection, result = self.connection, None
        try:
            await _result(connection.send_packed_command(connection.pack_commands(commands), check_health=False))
        except ERRORS as error:
            return self.send_failed(f"the command could not be sent: {error}", error)
        for _ in commands:
            try:
                reply = await _result(connection.read_response())
            except ResponseError as error:
                reply = Refused(str(error), error)
            except ERRORS as error:
                return Unanswered(f"no answer came: {error}", error)
            result = result if isinstance(result, Refused) else reply
        return result


async def _result(returned: Any) -> Any:
    """Returns what a method of redis-py returns, of either kind."""
    return await returned if inspect.isawaitable(returned) else returned


class Pool:
    """Connections to one server. A call that finds none waits for what comes first: one that another call gives back,
    or a new one, which connects in the background, because connecting may take longer than a call.

    It has no lock and no queue, which an exception of a signal's handler, or of gevent's Timeout, could leave locked. A
    connection that is lost by one leaves its place when it is garbage-collected.
    """

    def __init__(self, calling: Calling, address: Address) -> None:
        self._calling, self._address = calling, address
        # Connections that no call uses, and why one did not come about.
        self._free: deque[Union[Link, Unsent]] = deque()
        self._links: WeakSet[Link] = WeakSet()
        # What wakes the calls that wait, the first one first, and what each is handed.
        self._waiting: dict[Any, deque[Union[Link, Unsent]]] = {}
        self._closed = False
        self.answered = 0  # calls

    async def take(self, deadline: Deadline) -> Union[Link, Unsent]:
        waited = False
        try:
            while True:
                free = _first(self._free)
                if free is None:
                    waited = True
                    free = await self._wait(deadline)
                if not isinstance(free, Link):
                    return free or self.in_vain()
                if free.is_open():
                    free.was_idle = not waited
                    return free
                self.drop(free)
                waited = False
        finally:
            if self._waiting and not waited:  # it may have taken what another call had begun
                self._begin()

    async def _wait(self, deadline: Deadline) -> Union[Link, Unsent, None]:
        waiter, handed = self._calling.new_waiter(), deque[Union[Link, Unsent]]()
        try:
            self._waiting[waiter] = handed
            self._begin()
            free = _first(self._free)
            if free is None:
                await self._calling.wait(waiter, deadline)
                free = _first(handed)
            return free
        finally:
            self._waiting.pop(waiter, None)
            while (unused := _first(handed)) is not None:  # this call gives up, or has found another one
                self._hand(unused)

    def _hand(self, free: Union[Link, Unsent]) -> None:
        """Hands a connection to the call that has waited for longest."""
        self._free.append(free)  # first, because a call looks here after it has begun to wait
        waiter = next(iter(list(self._waiting)), None)
        taken = _first(self._free) if waiter is not None else None
        if taken is None:
            return
        handed = self._waiting.pop(waiter, None)
        if handed is None:  # it waits no more
            return self._hand(taken)
        handed.append(taken)
        self._calling.wake(waiter)

    def in_vain(self) -> Unsent:
        return Unsent(f"no connection to {self._calling.where(self._address)} in time")

    def _begin(self) -> None:
        if len(self._links) < self._calling.most and not self._closed:
            link = self._calling.link_class(self._calling.connection(self._address))
            self._links.add(link)
            self._calling.start(self._connect, link)

    async def _connect(self, link: Link) -> None:
        try:
            await link.connect()
        except Exception as error:
            self._links.discard(link)
            if self._waiting:
                self._hand(unsent(error))
        else:
            self.give(link)

    def give(self, link: Link) -> None:
        """Lets another call have a connection."""
        self._hand(link)
        if self._closed:
            self.close()

    def drop(self, link: Link) -> None:
        self._links.discard(link)
        link.close()
        if self._waiting:
            self._begin()

    def close(self) -> None:
        """Closes what no call is using, now and later."""
        self._closed = True
        while (free := _first(self._free)) is not None:
            if isinstance(free, Link):
                free.close()


def _first(queue: deque[Union[Link, Unsent]]) -> Union[Link, Unsent, None]:
    try:
        return queue.popleft()
    except IndexError:
        return None
