"""What a document costs, compared with those of all customers."""

from __future__ import annotations

from datetime import timedelta

_ENOUGH = 100  # documents that must have been seen before a cost is known, and what a call weighs at most
_MEMORY = 1000  # the mean is of about so many
_GREATEST = 100_000  # thousandths
_DAY = 86_400  # seconds
_OUTLIER = 20  # times the mean: what took longer, as where a worker stood still, counts as that


class Mean:
    """How long documents of all customers take, the latest thousand that this process knows of.

    Threads may use it together. Where two add at once one of them may be lost, which a
    mean can bear.
    """

    def __init__(self) -> None:
        self._seen_and_mean = (0, 0.0)  # seconds

    def relative(self, took: timedelta, documents: int) -> int:
        """Returns what each of documents costs that took a time together, in thousandths of
        the mean; 0: the time or the mean is not known."""
        seen, mean = self._seen_and_mean
        if not took or seen < _ENOUGH:
            return 0
        return int(min(max(1000 * took.total_seconds() / documents / mean + 0.5, 1), _GREATEST))

    def add(self, took: timedelta, documents: int, done: int) -> None:
        """Adds those that were pending of documents that took a time together."""
        if not took or done < 1:
            return
        each = min(took.total_seconds(), _DAY) / documents
        seen, mean = self._seen_and_mean
        if seen >= _ENOUGH:
            each = min(each, _OUTLIER * mean)
        weight = min(done, _ENOUGH)
        seen = min(seen + weight, _MEMORY)
        self._seen_and_mean = (seen, mean + (each - mean) * weight / seen)
