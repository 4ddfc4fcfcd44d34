"""What both stores have in common."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Callable, Generic, Optional, TypeVar, Union

from ._calls import Call, Calls
from ._course import Deadline, Nodes, Steps, course
from ._dones import Dones
from ._errors import NotCountedError, PriorityError
from ._fallback import Fallback
from ._keys import Keys, Name, utf8
from ._policy import Policy, seconds_of

T = TypeVar("T")
Client = TypeVar("Client")

_DAY = 86_400  # seconds
_MOST_SECONDS = 60  # for a timeout that is a number: a larger one is probably milliseconds


class Base(Generic[Client]):
    """A store, except for how it waits."""

    _nodes: Nodes
    _closed = False
    _fallback: Optional[Fallback] = None
    _dones: Optional[Dones] = None

    def __init__(
        self,
        client: Client,
        *,
        prefix: str = "priority",
        timeout: Union[timedelta, float] = 0.25,
        policy: Policy = Policy(),
        tiers: Optional[Mapping[str, Policy]] = None,
        tier_of: Optional[Callable[[Any], Optional[str]]] = None,
        lease: timedelta = timedelta(days=1),
        overrides: bool = False,
        accounts: bool = False,
        join: bool = False,
        name: str = "",
        fallback: Optional[bool] = None,
    ) -> None:
        fallback = join if fallback is None else fallback
        for what, option in (("overrides", overrides), ("accounts", accounts), ("join", join), ("fallback", fallback)):
            if not isinstance(option, bool):
                raise TypeError(f"{what} must be a bool, not {type(option).__name__}")
        if not isinstance(name, str):
            raise TypeError(f"the name must be a str, not {type(name).__name__}")
        if len(utf8("the name", name)) > 100:
            raise ValueError(f"the name {name[:80]!r} has more than 100 bytes")
        if name and not join:
            raise ValueError("a name without join would never be used")
        self._timeout = _seconds(timeout)
        self._calls = Calls(prefix, policy, tiers, tier_of, lease, overrides or join, accounts)
        if fallback:
            self._fallback = Fallback(self._calls.memory)
        self._connect(client, join, name)

    def _connect(self, client: Client, join: bool, name: str) -> None:
        raise NotImplementedError

    @property
    def last(self) -> int:
        """The last level that any customer can get."""
        return self._calls.own_policies.last

    @property
    def degraded(self) -> bool:
        """Whether the latest call to Redis failed, so that the fallback answers. False without a fallback."""
        return self._fallback is not None and self._fallback.degraded

    def keys(self, customer: Name) -> Keys:
        """Returns a customer's keys. Another program shares the counts by using them with the scripts."""
        return self._calls.keys(customer)

    def script(self, name: str, customer: Name) -> str:
        """Returns a script with the numbers of the customer's policy: ``next``, ``submit``, ``done``, ``peek`` or
        ``reset``. Its file in the folder ``lua`` of the repository explains its keys and arguments."""
        return self._calls.script(name, self._calls.policies.policy_of(customer)).text

    def _steps(self, make: Callable[[], Call[T]], documents: int = 1) -> Steps[T]:
        """Makes a call about that many documents, by Redis or by the fallback."""
        try:
            call, deadline, since = make(), Deadline(self._timeout), time.monotonic()
            documents = call.documents
            if self._closed:
                raise NotCountedError(f"{call.operation}: the store is closed")
            if self._fallback is None or call.operation == "reset":
                try:
                    return (yield from course(call, self._nodes, deadline))
                finally:
                    if self._fallback is not None:
                        self._fallback.reset(call)
            if self._dones is not None:
                self._dones.send()  # again, because an event loop may have ended meanwhile
            if self._fallback.asks_redis():
                try:
                    result = yield from course(call, self._nodes, deadline)
                except GeneratorExit:
                    self._fallback.gave_up(call)
                    raise
                except PriorityError as error:
                    if not self._fallback.failed(call, error, deadline.was_mostly_paused() or deadline.starved):
                        raise
                else:
                    self._fallback.succeeded(call)
                    return result
            if self._dones is not None and call.operation in ("done", "done_n"):
                self._dones.owe(call, since)
            return call.by_memory(self._fallback.memory)
        except Exception as error:
            if self._calls.window is not None and documents > 0:
                self._calls.window.failed(error, documents)
            raise

    def _probe(self) -> Optional[Steps[None]]:
        """Returns a call that finds out whether Redis answers, if a caller gave up before it could."""
        key = self._fallback.to_probe() if self._fallback is not None else b""
        return self._probing(self._fallback, self._calls.probe(key)) if self._fallback is not None and key else None

    def _probing(self, fallback: Fallback, call: Call[Any]) -> Steps[None]:
        answers, deadline = fallback.answers, Deadline(self._timeout)
        try:
            yield from course(call, self._nodes, deadline)
        except PriorityError as error:
            if fallback.answers == answers:  # else a part of Redis answers
                fallback.failed(call, error, deadline.was_mostly_paused(), decides=True)
        else:
            fallback.succeeded(call)


def _seconds(timeout: Union[timedelta, float]) -> float:
    """Returns a timeout in seconds, or raises."""
    seconds = seconds_of("the timeout", timeout)
    if not 0 < seconds <= _DAY:
        raise ValueError("the timeout must be above 0 and at most a day")
    if seconds > _MOST_SECONDS and not isinstance(timeout, timedelta):
        raise ValueError(f"a timeout of {seconds:g} is that many seconds; write timedelta(milliseconds={seconds:g}), or timedelta(seconds={seconds:g})")
    return float(seconds)
