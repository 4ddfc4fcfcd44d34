"""What a document costs, compared with the documents of other customers."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Sequence

_ENOUGH = 3  # customers: of three, the middle one decides
_MOST_CUSTOMERS = 1000
_MOST_DOCUMENTS = 3  # of a customer
_GREATEST = 100_000  # thousandths
_BILLION = 1e9


class Costs:
    """The costs of the documents that this process has seen: their processing times, or the costs passed to
    ``submit``. Each customer has the median of their latest three documents. A document is compared with the usual
    cost, the geometric mean of the customers without the cheapest fifth and the dearest fifth, which no single customer
    can move far.

    Threads may use it together. There is no lock, which a child could inherit; where two add at once, one may be lost.
    """

    def __init__(self) -> None:
        # The logarithms of each customer's costs, in order of arrival; the customers' medians, ascending; and the usual
        # cost, 0 until it is known.
        self._history: tuple[dict[bytes, tuple[int, ...]], list[int], float] = ({}, [], 0.0)

    def relative(self, cost: float) -> int:
        """Returns a cost in thousandths of the usual cost; 0: the cost or the usual cost is not known."""
        usual = self._history[2]
        if cost <= 0 or not usual:
            return 0
        return int(min(max(1000 * (cost / usual) + 0.5, 1), _GREATEST))

    def add(self, customer: bytes, costs: Sequence[float]) -> None:
        """Adds documents of a customer."""
        logarithms = [_logarithm(cost) for cost in costs if cost > 0]
        if not logarithms:
            return
        history = self._history
        documents, medians = history[0].copy(), history[1].copy()
        before = documents.get(customer, ())
        replaced = before or (documents.pop(next(iter(documents))) if len(documents) >= _MOST_CUSTOMERS else ())
        if replaced:
            del medians[bisect_left(medians, _median(replaced))]
        latest = (*before, *logarithms)[-_MOST_DOCUMENTS:]
        documents[customer] = latest
        insort(medians, _median(latest))
        self._history = documents, medians, _usual(medians)


def _logarithm(cost: float) -> int:
    """Returns the natural logarithm in billionths. Of whole numbers any sum is exact, in every language."""
    return math.floor(_BILLION * math.log(cost) + 0.5)


def _median(numbers: Sequence[int]) -> int:
    """Returns the median; of two numbers, the greater one."""
    return sorted(numbers)[len(numbers) // 2]


def _usual(medians: Sequence[int]) -> float:
    """Returns the geometric mean without a fifth at either end, 0 if the customers are too few."""
    if len(medians) < _ENOUGH:
        return 0.0
    outer = (len(medians) + 2) // 5
    middle = medians[outer : len(medians) - outer]
    return math.exp(sum(middle) / len(middle) / _BILLION)
