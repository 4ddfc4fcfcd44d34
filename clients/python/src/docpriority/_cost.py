"""What a document costs, compared with the documents of other customers."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

_ENOUGH = 3  # customers: in a median of three, no single one decides
_MOST_CUSTOMERS = 1000
_MOST_DOCUMENTS = 3  # of a customer
_GREATEST = 100_000  # thousandths


class Costs:
    """The costs of the documents that this process has seen: their processing times, or the costs passed to
    ``submit``. Each customer has the median of their latest three documents, and a document is compared with the median
    of the customers.

    Threads may use it together. There is no lock, which a child could inherit; where two add at once, one may be lost.
    """

    def __init__(self) -> None:
        # Each customer's costs, in order of arrival; and the customers' medians, ascending.
        self._history: tuple[dict[bytes, tuple[float, ...]], list[float]] = ({}, [])

    def relative(self, cost: float) -> int:
        """Returns a cost in thousandths of the median; 0: the cost or the median is not known."""
        medians = self._history[1]
        if cost <= 0 or len(medians) < _ENOUGH:
            return 0
        return int(min(max(1000 * (cost / _middle(medians)) + 0.5, 1), _GREATEST))

    def add(self, customer: bytes, costs: Sequence[float]) -> None:
        """Adds documents of a customer."""
        costs = [cost for cost in costs if cost > 0]
        if not costs:
            return
        history = self._history
        documents, medians = history[0].copy(), history[1].copy()
        before = documents.get(customer, ())
        replaced = before or (documents.pop(next(iter(documents))) if len(documents) >= _MOST_CUSTOMERS else ())
        if replaced:
            del medians[bisect_left(medians, _middle(sorted(replaced)))]
        latest = (*before, *costs)[-_MOST_DOCUMENTS:]
        documents[customer] = latest
        insort(medians, _middle(sorted(latest)))
        self._history = documents, medians


def _middle(ascending: Sequence[float]) -> float:
    """Returns the median; of an even number, the greater of the middle two."""
    return ascending[len(ascending) // 2]
