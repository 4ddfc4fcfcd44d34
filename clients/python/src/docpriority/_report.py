"""What a process tells operators of itself. No input or output is done here."""

from __future__ import annotations

import base64
import heapq
import json
import math
from collections import Counter, deque
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Union

from ._decision import Decision, Ended
from ._errors import CorruptCountError, NotCountedError, OutcomeUnknownError
from ._keys import Name

_STEPS, _STEP_SECONDS = 12, 5.0  # of the window
_MOST_TOLD = 100_000  # that nobody has counted yet, as while Redis does not answer
_MOST_CUSTOMERS = 1000  # told apart in a step
_MOST_BUSIEST = 20
_MOST_BYTES, _MOST_BYTES_OF_WAITS = 8192, 4096
_LAST_BUCKET = 107
_DEGRADED_SECONDS = 10.0  # after a call that Redis did not answer
_MILLISECOND = timedelta(milliseconds=1)
_CLASSES: tuple[tuple[Any, str], ...] = (
    (NotCountedError, "not_counted"),
    (OutcomeUnknownError, "outcome_unknown"),
    (CorruptCountError, "corrupt_count"),
    ((TypeError, ValueError), "invalid"),
)


class _Decided:
    """Decisions about documents of one customer, of which the caller may change the list."""

    __slots__ = ("customer", "documents", "fallback", "last", "levels", "overridden", "rule")

    def __init__(self, rule: str, customer: Name, decisions: Sequence[Decision]) -> None:
        self.rule = rule
        self.customer = customer
        self.last = decisions[-1]
        self.documents = len(decisions)
        one = self.documents == 1  # which most calls have
        self.levels = {self.last.level: 1} if one else Counter(decision.level for decision in decisions)
        self.overridden = self.documents if self.last.ruled else 0
        self.fallback = self.documents if self.last.degraded else 0


class Told:
    """What callers were told, until the window counts it. To add something takes a caller no
    lock, and a full queue drops its oldest."""

    def __init__(self) -> None:
        self._queue: deque[Any] = deque(maxlen=_MOST_TOLD)

    def decided(self, rule: str, customer: Name, decisions: Sequence[Decision]) -> None:
        self._queue.append(_Decided(rule, customer, decisions))

    def ended(self, ended: Sequence[Ended]) -> None:
        self._queue.append([(of.level, of.sojourn) for of in ended])

    def failed(self, error: Exception, documents: int) -> None:
        self._queue.append((next((name for kinds, name in _CLASSES if isinstance(error, kinds)), "error"), documents))

    def take(self) -> Any:
        """Returns the oldest; None: there is nothing more."""
        return self._queue.popleft() if self._queue else None

    def clear(self) -> None:
        self._queue.clear()


class _Step:
    """What happened in a part of the window."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.levels: dict[str, Counter[int]] = {"count": Counter(), "load": Counter()}
        self.overridden = 0
        self.fallback = 0
        self.errors: Counter[str] = Counter()
        self.waits: dict[int, Counter[int]] = {}
        self.customers: dict[bytes, tuple[int, _Decided]] = {}

    def count(self, told: Union[_Decided, list[tuple[int, timedelta]], tuple[str, int]]) -> None:
        if isinstance(told, _Decided):
            levels = self.levels[told.rule]
            for level, documents in told.levels.items():
                levels[level] += documents
            self.overridden += told.overridden
            self.fallback += told.fallback
            self._count_customer(told)
        elif isinstance(told, list):
            for level, wait in told:
                if level not in self.waits:
                    self.waits[level] = Counter()
                self.waits[level][bucket_of(wait)] += 1
        else:
            name, documents = told
            self.errors[name] += documents

    def _count_customer(self, told: _Decided) -> None:
        """Counts never too many, and too few by at most a thousandth of all documents: so who
        is busy is among the customers that are told apart (Misra and Gries)."""
        name = told.customer.encode() if isinstance(told.customer, str) else told.customer
        documents, known = told.documents, self.customers.get(name)
        if known is None and len(self.customers) >= _MOST_CUSTOMERS:
            fewest = min(documents, min(n for n, _ in self.customers.values()))
            self.customers = {other: (n - fewest, of) for other, (n, of) in self.customers.items() if n > fewest}
            documents -= fewest
        if documents:
            self.customers[name] = (documents + (known[0] if known else 0), told)


class Window:
    """What callers were told in the last minute."""

    def __init__(self, joined: float) -> None:
        self._joined = joined
        self._steps: list[_Step] = []
        self._failed = -math.inf  # when the last call failed, if Redis has answered none since

    def count(self, told: Told, now: float) -> None:
        """Counts what callers were told since it counted before."""
        number = int((now - self._joined) / _STEP_SECONDS)
        self._steps = [step for step in self._steps if step.number > number - _STEPS]
        if not self._steps or self._steps[-1].number < number:
            self._steps.append(_Step(number))
        one = told.take()
        while one is not None:
            self._steps[-1].count(one)
            if not isinstance(one, tuple):
                self._failed = -math.inf
            elif one[0] in ("not_counted", "outcome_unknown"):
                self._failed = now
            one = told.take()

    def degraded(self, now: float) -> bool:
        """Reports whether Redis failed when a caller last called it."""
        return now - self._failed < _DEGRADED_SECONDS

    def fields(self, now: float) -> dict[str, Any]:
        """Returns what a report says of the window."""
        up = now - self._joined
        first = max(int(up / _STEP_SECONDS) - _STEPS + 1, 0)
        levels: dict[str, Counter[int]] = {"count": Counter(), "load": Counter()}
        errors: Counter[str] = Counter()
        waits: dict[int, Counter[int]] = {}
        customers: dict[bytes, tuple[int, _Decided]] = {}
        for step in self._steps:
            errors += step.errors
            for rule, counts in step.levels.items():
                levels[rule] += counts
            for level, buckets in step.waits.items():
                waits.setdefault(level, Counter()).update(buckets)
            for name, (documents, told) in step.customers.items():
                customers[name] = (documents + customers.get(name, (0,))[0], told)
        busiest = heapq.nsmallest(_MOST_BUSIEST, customers.items(), lambda of: (-of[1][0], -of[1][1].last.level, of[0]))
        return {
            "up_ms": int(up * 1000), "window_ms": int((up - first * _STEP_SECONDS) * 1000),
            "by_count": levels["count"], "by_load": levels["load"],
            "overridden": sum(step.overridden for step in self._steps), "fallback": sum(step.fallback for step in self._steps),
            "errors": errors, "waits": waits,
            "busiest": [_busy(name, documents, told) for name, (documents, told) in busiest],
        }


def bucket_of(wait: timedelta) -> int:
    """Returns which of a report's buckets has a wait."""
    milliseconds = wait // _MILLISECOND
    return min(math.ceil(4 * math.log2(milliseconds)), _LAST_BUCKET) if milliseconds > 1 else 0


def fitted(report: dict[str, Any]) -> bytes:
    """Returns a report in JSON. So that it is short enough, waits are told apart less, and the
    least busy customers are left out."""
    waits, wide = report["waits"], 1
    while len(_json(report["waits"])) > _MOST_BYTES_OF_WAITS and wide <= _LAST_BUCKET:
        wide *= 2
        report["waits"] = {level: _coarser(buckets, wide) for level, buckets in waits.items()}
    text = _json(report)
    while len(text) > _MOST_BYTES and report["busiest"]:
        report["busiest"].pop()
        text = _json(report)
    if len(text) > _MOST_BYTES:  # hundreds of levels
        text = _json({name: value for name, value in report.items() if name != "waits"})
    return text


def printable(text: str, most: int) -> str:
    """Returns a text of at most so many bytes in which everything can be printed."""
    text = "".join(char if char.isprintable() else "?" for char in text)
    return text.encode("utf-8", "replace")[:most].decode("utf-8", "ignore")


def _coarser(buckets: Counter[int], wide: int) -> dict[int, int]:
    coarse: Counter[int] = Counter()
    for bucket, documents in buckets.items():
        coarse[min(-(-bucket // wide) * wide, _LAST_BUCKET)] += documents
    return coarse


def _busy(customer: bytes, documents: int, told: _Decided) -> dict[str, Any]:
    number = told.last.count if told.rule == "count" else told.last.load
    fields = {"documents": documents, "rule": told.rule, "level": told.last.level, told.rule: number}
    try:
        return {"customer": customer.decode(), **fields}
    except UnicodeDecodeError:
        return {"customer_base64": base64.b64encode(customer).decode(), **fields}


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
