"""What a process reports of itself to operators: its last minute. No input or output is done here."""

from __future__ import annotations

import base64
import heapq
import json
import math
import threading
import time
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Callable

from ._decision import Decision, Ended
from ._errors import CorruptError, NotCountedError, OutcomeUnknownError

_STEPS, _STEP_SECONDS = 12, 5.0  # of the window
_MOST_CUSTOMERS = 1000  # told apart in a step
_MOST_BUSIEST = 20
_MOST_BYTES, _MOST_BYTES_OF_WAITS = 8192, 4096
_LAST_BUCKET = 107
_DEGRADED_SECONDS = 10.0  # after a call that Redis did not answer
_MILLISECOND = timedelta(milliseconds=1)
_CLASSES: tuple[tuple[Any, str], ...] = (
    (NotCountedError, "not_counted"),
    (OutcomeUnknownError, "outcome_unknown"),
    (CorruptError, "corrupt"),
    ((TypeError, ValueError), "invalid"),
)


class _Step:
    """What happened in a part of the window."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.levels: dict[str, Counter[int]] = {"count": Counter(), "load": Counter()}
        self.overridden = self.fallback = 0
        self.errors: Counter[str] = Counter()
        self.waits: dict[int, Counter[int]] = {}
        self.customers: dict[bytes, tuple[int, str, Decision]] = {}

    def count_customer(self, name: bytes, documents: int, rule: str, last: Decision) -> None:
        """Counts never too many, and too few by at most a thousandth of all documents: so who is busy is among the
        customers that are told apart (Misra and Gries)."""
        known = self.customers.get(name)
        if known is None and len(self.customers) >= _MOST_CUSTOMERS:
            fewest = min(documents, min(n for n, _, _ in self.customers.values()))
            self.customers = {other: (n - fewest, *of) for other, (n, *of) in self.customers.items() if n > fewest}  # type: ignore[misc]
            documents -= fewest
        if documents:
            self.customers[name] = (documents + (known[0] if known else 0), rule, last)


class Window:
    """What callers were answered in the last minute. Threads may use it together."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._joined = clock()
        self._lock = threading.RLock()  # a handler of signals may call the store too
        self._steps: list[_Step] = []
        self._failed_at = -math.inf  # the last call, if Redis has answered none since

    def decided(self, rule: str, customer: bytes, decisions: Sequence[Decision]) -> None:
        last = decisions[-1]
        with self._lock:
            step = self._step()
            step.levels[rule].update(decision.level for decision in decisions)
            step.overridden += sum(decision.level != decision.rule_level for decision in decisions)
            step.fallback += len(decisions) if last.degraded else 0
            step.count_customer(customer, len(decisions), rule, last)
            self._failed_at = -math.inf

    def ended(self, ended: Sequence[Ended]) -> None:
        with self._lock:
            waits = self._step().waits
            for of in ended:
                waits.setdefault(of.level, Counter())[bucket_of(of.latency)] += 1
            self._failed_at = -math.inf

    def failed(self, error: Exception, documents: int) -> None:
        name = next((name for kinds, name in _CLASSES if isinstance(error, kinds)), "error")
        with self._lock:
            self._step().errors[name] += documents
            self._failed_at = self._clock() if name in ("not_counted", "outcome_unknown") else -math.inf

    @property
    def degraded(self) -> bool:
        """Reports whether Redis failed when a caller last called it."""
        return self._clock() - self._failed_at < _DEGRADED_SECONDS

    def fields(self) -> dict[str, Any]:
        """Returns what a report says of the window."""
        levels: dict[str, Counter[int]] = {"count": Counter(), "load": Counter()}
        errors: Counter[str] = Counter()
        waits: dict[int, Counter[int]] = {}
        customers: dict[bytes, tuple[int, str, Decision]] = {}
        with self._lock:
            self._step()
            for step in self._steps:
                errors += step.errors
                for rule, counts in step.levels.items():
                    levels[rule] += counts
                for level, buckets in step.waits.items():
                    waits.setdefault(level, Counter()).update(buckets)
                for name, (documents, rule, last) in step.customers.items():
                    customers[name] = (documents + customers.get(name, (0,))[0], rule, last)
            overridden, fallback = sum(step.overridden for step in self._steps), sum(step.fallback for step in self._steps)
        busiest = heapq.nsmallest(_MOST_BUSIEST, customers.items(), lambda of: (-of[1][0], -of[1][2].level, of[0]))
        up = self._clock() - self._joined
        first = max(int(up / _STEP_SECONDS) - _STEPS + 1, 0)
        return {
            "up_ms": int(up * 1000), "window_ms": int((up - first * _STEP_SECONDS) * 1000),
            "by_count": levels["count"], "by_load": levels["load"], "overridden": overridden, "fallback": fallback,
            "errors": errors, "waits": waits, "busiest": [_busy(name, *of) for name, of in busiest],
        }  # fmt: skip

    def _step(self) -> _Step:
        """Returns the present part, and forgets those that are over."""
        number = int((self._clock() - self._joined) / _STEP_SECONDS)
        if not self._steps or self._steps[-1].number < number:
            self._steps = [step for step in self._steps if step.number > number - _STEPS] + [_Step(number)]
        return self._steps[-1]


def bucket_of(wait: timedelta) -> int:
    """Returns which of a report's buckets has a wait."""
    milliseconds = wait // _MILLISECOND
    return min(math.ceil(4 * math.log2(milliseconds)), _LAST_BUCKET) if milliseconds > 1 else 0


def fitted(report: dict[str, Any]) -> bytes:
    """Returns a report in JSON. So that it is short enough, waits are told apart less, and the least busy customers are
    left out."""
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


def _busy(customer: bytes, documents: int, rule: str, last: Decision) -> dict[str, Any]:
    fields = {"documents": documents, "rule": rule, "level": last.level, rule: last.count if rule == "count" else last.load}
    try:
        return {"customer": customer.decode(), **fields}
    except UnicodeDecodeError:
        return {"customer_base64": base64.b64encode(customer).decode(), **fields}


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
