"""What a process reports to operators: about the past minute, and less about the past hour. It does no I/O."""

from __future__ import annotations

import base64
import heapq
import json
import math
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, Callable, NamedTuple

from ._decision import Decision, Ended
from ._errors import CorruptError, NotCountedError, OutcomeUnknownError
from ._lock import Lock

_STEPS = 12
_STEP, _PART, _DAY = 5_000, 300_000, 86_400_000  # milliseconds, of the window, of the hour, and of a backlog
_MOST_CUSTOMERS = 1000  # counted separately in a step
_MOST_BUSIEST, _MOST_OTHERS = 20, 10
_MOST_BYTES, _MOST_BYTES_OF_WAITS = 12_288, 4096
_GREATEST_BUCKET = 107
_MILLISECOND = timedelta(milliseconds=1)
_CLASSES: tuple[tuple[Any, str], ...] = (
    (NotCountedError, "not_counted"),
    (OutcomeUnknownError, "outcome_unknown"),
    (CorruptError, "corrupt"),
    ((TypeError, ValueError), "invalid"),
)


class _Latest(NamedTuple):
    """The latest decision about a customer."""

    at: int
    rule: str
    decision: Decision


class _Customer(NamedTuple):
    documents: int = 0
    first: int = 0  # when the first of them came
    latest: _Latest = _Latest(-1, "", Decision(0, 0))


_NONE = _Customer()


class _Step:
    """What happened in a step of the window, or in a part of the hour."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.numbers: Counter[tuple[Any, ...]] = Counter()  # by their paths in a report
        self.customers: dict[bytes, _Customer] = {}

    def count(self, name: bytes, documents: int, latest: _Latest) -> None:
        """Never counts too many, and too few by at most a thousandth of all documents, so busy customers stay (Misra
        and Gries)."""
        before = self.customers.get(name, _NONE)
        if before is _NONE and len(self.customers) >= _MOST_CUSTOMERS:
            fewest = min(documents, min(other.documents for other in self.customers.values()))
            self.customers = {
                name: other._replace(documents=other.documents - fewest) for name, other in self.customers.items() if other.documents > fewest
            }
            documents -= fewest
        if documents:
            self.customers[name] = _Customer(documents + before.documents, latest.at if before is _NONE else before.first, latest)

    def add(self, later: _Step) -> None:
        self.numbers.update(later.numbers)
        for name, customer in later.customers.items():
            self.customers[name] = customer._replace(documents=customer.documents + self.customers.get(name, _NONE).documents)


class _Steps:
    """The latest twelve steps of a length in milliseconds."""

    def __init__(self, length: int) -> None:
        self._length = length
        self.all: list[_Step] = []

    def at(self, up: int) -> _Step:
        """Returns the current step, and forgets expired ones."""
        number = up // self._length
        if not self.all or self.all[-1].number < number:
            self.all = [step for step in self.all if step.number > number - _STEPS] + [_Step(number)]
        return self.all[-1]

    def sum(self, up: int) -> _Step:
        total = _Step(self.at(up).number)
        for step in self.all:
            total.add(step)
        return total


class Window:
    """The results of recent calls. Thread-safe."""

    def __init__(self, clock: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000) -> None:
        self._clock = clock  # in milliseconds
        self._joined = clock()
        self._lock = Lock()
        self._minute, self._hour = _Steps(_STEP), _Steps(_PART)
        self._added = -1  # the latest step that the fleet's history has
        self._waiting: dict[bytes, _Latest] = {}  # decisions by load

    def decided(self, rule: str, customer: bytes, decisions: Sequence[Decision]) -> None:
        with self._lock:
            latest = _Latest(self._up(), rule, decisions[-1])
            minute, hour = self._minute.at(latest.at), self._hour.at(latest.at)
            minute.numbers.update((f"by_{rule}", decision.level) for decision in decisions)
            minute.numbers["overridden",] += sum(decision.level != decision.rule_level for decision in decisions)
            if latest.decision.degraded:
                minute.numbers["fallback",] += len(decisions)
            elif rule == "load":
                hour.numbers["submitted_hour",] += len(decisions)
            minute.count(customer, len(decisions), latest)
            hour.count(customer, len(decisions), latest)
            if rule == "load":
                if customer not in self._waiting and len(self._waiting) >= _MOST_CUSTOMERS:
                    self._waiting = dict(sorted(self._waiting.items(), key=lambda item: -item[1].decision.pending)[: _MOST_CUSTOMERS // 2])
                self._waiting[customer] = latest

    def ended(self, ended: Sequence[Ended]) -> None:
        with self._lock:
            minute, hour = self._minute.at(self._up()), self._hour.at(self._up())
            for document in ended:
                bucket = bucket_of(document.latency)
                minute.numbers["waits", document.level, bucket] += 1
                hour.numbers["ended_hour",] += 1
                if document.level == 1:
                    hour.numbers["first_hour", bucket] += 1

    def failed(self, error: Exception, documents: int) -> None:
        name = next((name for kinds, name in _CLASSES if isinstance(error, kinds)), "error")
        with self._lock:
            self._minute.at(self._up()).numbers["errors", name] += documents

    def fields(self) -> dict[str, Any]:
        """Returns a report's numbers for the minute and the hour."""
        with self._lock:
            up = self._up()
            minute, hour = self._minute.sum(up), self._hour.sum(up)
            self._waiting = {name: latest for name, latest in self._waiting.items() if up - latest.at <= _DAY}
            waiting, parts = self._waiting.copy(), self._hour.all[::-1]
        fields: dict[str, Any] = {
            "up_ms": up, "window_ms": up - max(minute.number - _STEPS + 1, 0) * _STEP, "overridden": 0, "fallback": 0,
            "by_count": {}, "by_load": {}, "errors": {}, "waits": {}, "busiest": [],
        }  # fmt: skip
        for path, number in [*minute.numbers.items(), *hour.numbers.items()]:
            place = fields
            for field in path[:-1]:
                place = place.setdefault(field, {})
            place[path[-1]] = number
        for name in _busiest(minute, hour, waiting):
            customer = minute.customers.get(name, _NONE)
            latest = max(customer.latest, hour.customers.get(name, _NONE).latest, waiting.get(name, _NONE.latest), key=lambda latest: latest.at)
            customer_parts = (part.customers[name] for part in parts if name in part.customers)
            text = " ".join(f"{(up - part.first) // 1000} {part.documents} {part.latest.decision.level}" for part in customer_parts)
            fields["busiest"].append(_busy(name, customer.documents, up - latest.at, latest, text))
        return fields

    def history(self, ending: bool = False) -> tuple[dict[str, int], int]:
        """Returns what report.lua adds to the fleet's history: the steps that are over and not there yet, and in the end
        the current one; and the number of the last of them, to call ``added`` with when Redis has them."""
        with self._lock:
            last = self._minute.at(self._up()).number - (not ending)
            steps = [step for step in self._minute.all if self._added < step.number <= last]
            fields: Counter[str] = Counter()
            for step in steps:
                for (name, *path), number in step.numbers.items():
                    if name in ("by_count", "by_load"):
                        fields[f"d{path[0]}"] += number
                    elif name == "waits":
                        fields[f"w{path[0]}.{-(-path[1] // 4)}"] += number
        return fields, last

    def added(self, last: int) -> None:
        with self._lock:
            self._added = max(self._added, last)

    def _up(self) -> int:
        return self._clock() - self._joined


def bucket_of(wait: timedelta) -> int:
    """Returns the bucket of a wait in a report."""
    milliseconds = wait // _MILLISECOND
    return min(math.ceil(4 * math.log2(milliseconds)), _GREATEST_BUCKET) if milliseconds > 1 else 0


def fitted(report: dict[str, Any]) -> bytes:
    """Returns a report in JSON. To shorten it, waits are made coarser, and the least busy customers left out."""
    waits, wide = report["waits"], 1
    while len(_json(report["waits"])) > _MOST_BYTES_OF_WAITS and wide <= _GREATEST_BUCKET:
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
    """Returns a printable text of at most so many bytes."""
    text = "".join(char if char.isprintable() else "?" for char in text)
    return text.encode("utf-8", "replace")[:most].decode("utf-8", "ignore")


def _coarser(buckets: Counter[int], wide: int) -> dict[int, int]:
    coarse: Counter[int] = Counter()
    for bucket, documents in buckets.items():
        coarse[min(-(-bucket // wide) * wide, _GREATEST_BUCKET)] += documents
    return coarse


def _busiest(minute: _Step, hour: _Step, waiting: dict[bytes, _Latest]) -> Iterable[bytes]:
    """Returns the customers with the most documents in the minute, then others with the most pending, then others with
    the most documents in the hour."""
    named: dict[bytes, None] = {}
    for most, numbers in (
        (_MOST_BUSIEST, {name: customer.documents for name, customer in minute.customers.items()}),
        (_MOST_OTHERS, {name: latest.decision.pending for name, latest in waiting.items()}),
        (_MOST_OTHERS, {name: customer.documents for name, customer in hour.customers.items()}),
    ):
        others = ((-n, -minute.customers.get(name, _NONE).latest.decision.level, name) for name, n in numbers.items() if name not in named)
        named.update((name, None) for *_, name in heapq.nsmallest(most, others))
    return named


def _busy(name: bytes, documents: int, ago: int, latest: _Latest, hour: str) -> dict[str, Any]:
    decision = latest.decision
    fields: dict[str, Any] = {"documents": documents, "rule": latest.rule, "level": decision.level, "ago_ms": ago}
    fields[latest.rule] = decision.count if latest.rule == "count" else decision.load
    if decision.pending:
        fields["pending"] = decision.pending
    if hour:
        fields["hour"] = hour
    try:
        return {"customer": name.decode(), **fields}
    except UnicodeDecodeError:
        return {"customer_base64": base64.b64encode(name).decode(), **fields}


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
