"""What a document costs, compared with the average of all."""

from __future__ import annotations

from datetime import timedelta

_ENOUGH = 100  # documents that must have been seen before a cost is known
_MEMORY = 1000  # the mean is of about so many
_GREATEST = 100_000  # thousandths
_DAY = 86_400  # seconds
_OUTLIER = 20  # times the mean: what cost more, as where a worker stood still, counts as that


class Mean:
    """What documents of all customers cost, the latest thousand that this process knows of:
    the time that they took, or what ``submit`` was told.

    Threads may use it together. Where two add at once one of them may be lost, which a
    mean can bear.
    """

    def __init__(self) -> None:
        self._seen_and_mean = (0, 0.0)

    def relative(self, cost: float) -> int:
        """Returns a cost in thousandths of the mean; 0: the cost or the mean is not known."""
        seen, mean = self._seen_and_mean
        if cost <= 0 or seen < _ENOUGH:
            return 0
        return int(min(max(1000 * (cost / mean) + 0.5, 1), _GREATEST))

    def add(self, cost: float) -> None:
        """Adds a document."""
        if cost <= 0:
            return
        seen, mean = self._seen_and_mean
        if seen >= _ENOUGH:
            cost = min(cost, _OUTLIER * mean)
        seen = min(seen + 1, _MEMORY)
        self._seen_and_mean = (seen, mean + (cost - mean) / seen)


def each(took: timedelta, documents: int) -> float:
    """Returns the seconds that each of documents took which took a time together."""
    return min(took.total_seconds(), _DAY) / documents
