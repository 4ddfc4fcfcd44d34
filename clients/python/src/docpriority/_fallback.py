"""Who answers while Redis cannot: the rules in this process's memory. No input or output is done here."""

from __future__ import annotations

import logging
import math
import threading
import time
import uuid
from collections.abc import Generator
from typing import Any, Callable, Generic, Optional, TypeVar

from ._calls import Call, Calls
from ._dones import Dones, UnderWay
from ._errors import CorruptCountError, NotCountedError, OutcomeUnknownError, PriorityError
from ._memory import Memory, Overrides

T = TypeVar("T")

PROBE_SECONDS = 0.5  # between the rounds of the background
_OVERDUE_SECONDS = 5.0  # without a probe, after which a caller is one
_MOST_FAILURES = 10  # in a row
_MOST_PROBES = 10  # in a row that worked prove as much as a document that is counted
_MOST_FAILED_PAYMENTS = 3  # in a round
_MOST_CANDIDATES = 8  # on the nodes of a cluster
_COUNTING = frozenset(("next", "next_n", "submit", "submit_n"))

_log = logging.getLogger("docpriority")

Steps = Generator[Call[Any], Optional[PriorityError], None]
"""The calls that the background makes, each of which is answered with its error, if it failed."""


class Circuit:
    """Counts failures of Redis. Many in a row open it. A probe that works closes it again, at
    first on trust: then one failure opens it, until a document was counted. For a Redis that is
    full answers the probes."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._failures = 0
        self._on_trust = False
        self._probes = 0  # that worked on trust
        self.is_open = False
        self.is_failing = False

    def failed(self) -> bool:
        """Notes a failure. Reports whether it opened a circuit that was closed for good."""
        with self._lock:
            self.is_failing = True
            self._failures += 1
            if self.is_open or self._failures < _MOST_FAILURES:
                return False
            self.is_open, was_on_trust = True, self._on_trust
            self._on_trust = False
            return not was_on_trust

    def open(self) -> bool:
        """Opens it at the first failure. Reports as failed does."""
        with self._lock:
            self._failures = max(self._failures, _MOST_FAILURES - 1)
            return self.failed()

    def succeeded(self, counted: bool) -> bool:
        """Notes that Redis answered. Reports whether that closed the circuit for good."""
        if not self.is_failing and not self._failures:
            return False
        with self._lock:
            # A call that began before it opened may end late.
            return not self.is_open and (counted or not self._on_trust) and self._end()

    def probed(self) -> bool:
        """Notes a probe that worked. Reports as succeeded does."""
        with self._lock:
            if self.is_open:
                self._failures, self._probes = _MOST_FAILURES - 1, 0
                self._on_trust, self.is_open = True, False
            if not self._on_trust:
                self.is_failing = False  # but the failures count, if the next call fails too
                return False
            self._probes += 1
            return self._probes >= _MOST_PROBES and self._end()

    def _end(self) -> bool:
        was_on_trust, self._on_trust = self._on_trust, False
        self._failures, self.is_failing = 0, False
        return was_on_trust


class Fallback:
    """What a process knows while Redis fails, and what it owes Redis.

    What memory counted is forgotten when Redis is back: levels are better for it, never worse.
    Dones are not, for a document that looks pending makes its customer's levels worse.
    """

    def __init__(self, calls: Calls, seen: Overrides, are_many: bool, wake: Callable[[], None]) -> None:
        self._calls = calls
        self._most_candidates = _MOST_CANDIDATES if are_many else 1
        self._wake = wake  # the background
        self._circuit = Circuit()
        self.memory = Memory(calls.own.last, calls.lease, seen, degraded=True)
        self.dones = Dones()
        self.closed = False
        self._lock = threading.RLock()
        self._candidates: dict[bytes, None] = {}  # customers for whom Redis failed lately
        self._failing_for: frozenset[bytes] = frozenset()  # while it works for others
        self._suspected = False  # callers had less patience than the timeout
        self._probe_by = math.inf  # while Redis is away

    @property
    def degraded(self) -> bool:
        """Reports whether Redis failed when it was called last."""
        return self._circuit.is_failing or bool(self._failing_for)

    @property
    def busy(self) -> bool:
        """Reports whether there is something for the background to do."""
        return self.degraded or self._suspected or len(self.dones) > 0 or not self.memory.swept

    def away(self, customer: bytes) -> bool:
        """Reports whether memory is to answer at once."""
        return self._circuit.is_open or customer in self._failing_for

    def overdue(self) -> bool:
        """Reports whether a caller has to ask Redis although it is away, for the background gets to nothing:
        each event loop may end before it does. Of all callers it is one."""
        now = time.monotonic()
        if now < self._probe_by:
            return False
        with self._lock:
            if now < self._probe_by:
                return False
            self._probe_by = now + _OVERDUE_SECONDS
            return True

    def answered(self) -> None:
        """Redis answered such a caller."""
        self._failing_for = frozenset()
        if self._circuit.probed():
            self._recovered()

    def succeeded(self, customer: bytes, counted: bool) -> None:
        if self._circuit.succeeded(counted):
            self._recovered()
        elif counted and self.memory:
            self.memory.reset(customer)
        if len(self.dones):
            self._wake()  # the event loop that had the background may have ended

    def failed(self, customer: bytes, error: PriorityError) -> None:
        self._suggest(customer)
        if self._circuit.failed():
            self._log_open(error)
        if self._circuit.is_open and self._probe_by == math.inf:
            self._probe_by = time.monotonic() + _OVERDUE_SECONDS
        self._wake()

    def suggest(self, customer: bytes) -> None:
        """A call was not sent, for Redis is away."""
        self._suggest(customer)
        self._wake()

    def suspect(self, customer: bytes) -> None:
        """A caller did not wait for the answer, which says nothing, or that Redis hangs."""
        self._suggest(customer)
        self._suspected = True
        self._wake()

    def round(self) -> Steps:
        """Returns what the background has to do now."""
        self.memory.sweep()
        if self.degraded or self._suspected:
            works = yield from self._probe()
            if not works:
                return
        yield from self._pay()

    def _probe(self) -> Generator[Call[Any], Optional[PriorityError], bool]:
        """Finds out for whom Redis answers. Reports whether it is for anybody."""
        with self._lock:
            candidates, suspected = list(self._candidates), self._suspected
            self._suspected = False
        works, fails, failure = 0, [], None
        for customer in candidates:
            self._probe_by = time.monotonic() + _OVERDUE_SECONDS
            # It has to write something, for a replica would answer a peek.
            error = yield self._calls.owed(customer, [uuid.uuid4().bytes], 0)
            if error is None or isinstance(error, CorruptCountError):
                works += 1
            else:
                failure = error
                fails.append(customer)
        if not works:
            opened = self._circuit.open() if suspected else self._circuit.failed()
            if opened and failure is not None:
                self._log_open(failure)
            return False
        self._failing_for = frozenset(fails)
        with self._lock:
            for customer in candidates:
                if customer not in self._failing_for:
                    self._candidates.pop(customer, None)
            self._candidates.setdefault(candidates[-1])  # for the next probe
        if self._circuit.probed():
            self._recovered()
        return True

    def _pay(self) -> Steps:
        failures = 0
        for customer in self.dones.customers():
            payment = self.dones.pay(customer, time.monotonic())
            while payment is not None:
                taken = False
                try:
                    error = yield self._calls.owed(customer, payment.documents, payment.seconds)
                    taken = error is None or isinstance(error, CorruptCountError)
                finally:
                    self.dones.paid(payment, taken)
                if not taken:
                    failures += 1
                    if failures == _MOST_FAILED_PAYMENTS:
                        return
                    break
                if self._circuit.is_open:  # again: a probe has to close it, however many Dones come
                    return
                payment = self.dones.pay(customer, time.monotonic())

    def _suggest(self, customer: bytes) -> None:
        """Notes a customer for the probes, in the place of the one who was noted first."""
        if customer in self._candidates or self._candidates and self._most_candidates == 1:
            return
        with self._lock:
            self._candidates[customer] = None
            if len(self._candidates) > self._most_candidates:
                del self._candidates[next(iter(self._candidates))]

    def _recovered(self) -> None:
        self.memory.clear()
        self._wake()  # to sweep it
        _log.info("Redis answers again: levels come from the fleet's numbers")

    def _log_open(self, error: PriorityError) -> None:
        _log.warning("Redis does not answer, so that levels come from the memory of this process: %s", error)


class Attempt(Generic[T]):
    """One call of a caller: whether Redis is asked, and what its answer or failure means."""

    __slots__ = ("_call", "_cancelled", "_done", "_fallback", "_probes", "asks_redis")

    def __init__(self, fallback: Fallback, call: Call[T]) -> None:
        self._fallback = fallback
        self._call = call
        self._cancelled: Any = ()  # Dones of documents that are submitted again
        self._done: Optional[UnderWay] = None
        is_away, on_its_way = fallback.away(call.customer), False
        self._probes = is_away and call.operation != "peek" and fallback.overdue()
        is_away = is_away and not self._probes
        if is_away:
            fallback.suggest(call.customer)
        if call.submits:
            self._cancelled, on_its_way = fallback.dones.cancel(call.customer, call.submits)
        elif call.ends and is_away:
            fallback.dones.hold(call.customer, call.ends, call.seconds, time.monotonic())
        elif call.ends:
            self._done = fallback.dones.begin(call.customer, call.ends)
        self.asks_redis = fallback.closed or not (is_away or on_its_way)

    def succeeded(self) -> None:
        """Redis answered."""
        call, fallback = self._call, self._fallback
        if self._probes:
            fallback.answered()
        fallback.succeeded(call.customer, call.operation in _COUNTING)
        if self._done is not None:
            fallback.dones.end(self._done)
            if fallback.memory:
                fallback.memory.done(call.customer, call.ends, 0)
        elif call.operation == "reset":
            fallback.dones.forget(call.customer)
            fallback.memory.reset(call.customer)

    def failed(self, error: BaseException) -> bool:
        """Redis did not answer. Reports whether memory does."""
        call, fallback = self._call, self._fallback
        documents = fallback.dones.end(self._done) if self._done is not None else ()
        fallback.dones.restore(call.customer, () if self._answered(error) else self._cancelled)
        if isinstance(error, CorruptCountError):
            fallback.succeeded(call.customer, False)
            return False
        fallback.dones.hold(call.customer, documents, call.seconds, time.monotonic())
        if not isinstance(error, PriorityError):
            fallback.suspect(call.customer)
        elif not fallback.closed:
            fallback.failed(call.customer, error)
        if call.operation == "reset":
            fallback.memory.reset(call.customer)
        return self._answered(error)

    def _answered(self, error: BaseException) -> bool:
        """Reports whether memory answers in spite of an error."""
        is_failure = isinstance(error, (NotCountedError, OutcomeUnknownError))
        return is_failure and not self._fallback.closed and self._call.operation != "reset"

    def by_memory(self) -> T:
        """Returns memory's answer."""
        call = self._call
        if call.operation == "reset":
            self._fallback.memory.reset(call.customer)
            raise NotCountedError(f"reset {call.keys[0].decode('utf-8', 'backslashreplace')[:200]!r}: Redis does not answer")
        return call.by_memory(self._fallback.memory)
