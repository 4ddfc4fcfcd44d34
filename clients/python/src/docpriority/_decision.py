"""What a store answers."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from datetime import timedelta
from typing import Any


@dataclass(frozen=True)
class Decision:
    """The level of a document, and what it was made of. It cannot be changed."""

    __slots__ = ("level", "count", "pending", "reset_in")

    level: int
    """1 is processed first, ``Store.last`` last."""

    count: int
    """The customer's count after the document: 0 after a reset, then -1, -2 and so on."""

    pending: int
    """Documents submitted and not done, this one included; 0 from ``next``."""

    reset_in: timedelta
    """Until the count starts afresh if nothing more comes."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Until Python 3.11, pickle would try to set the fields of a frozen one.
        return Decision, astuple(self)
