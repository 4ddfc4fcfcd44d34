"""What a document costs, compared with those of all customers."""

from __future__ import annotations

from datetime import timedelta

_ENOUGH = 100  # documents that must have been seen before a cost is known
_MEMORY = 1000  # the mean is of about so many
_GREATEST = 999_999  # thousandths: what done.lua takes


class Mean:
    """How long documents of all customers take, the latest thousand that this process knows of.

    Threads may use it together. Where two add at once one of them may be lost, which a
    mean can bear.
    """

    def __init__(self) -> None:
        self._seen_and_mean = (0, 0.0)  # seconds

    def cost(self, took: timedelta, documents: int) -> int:
        """Adds documents that took a time together.

        Returns what each costs in thousandths of the mean; 0: that is not known.
        """
        each = took.total_seconds() / documents
        if each <= 0:
            return 0
        seen, mean = self._seen_and_mean
        weight = min(documents, _ENOUGH)
        seen = min(seen + weight, _MEMORY)
        mean += (each - mean) * weight / seen
        self._seen_and_mean = (seen, mean)
        if seen < _ENOUGH:
            return 0
        return min(max(int(1000 * each / mean + 0.5), 1), _GREATEST)
