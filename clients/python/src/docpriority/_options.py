"""What both stores have that asks nobody."""

from __future__ import annotations

import math

from ._calls import Calls
from ._keys import Name


class Keys:
    """A customer's keys and scripts. Another program that uses them shares the counts."""

    _calls: Calls

    @property
    def last(self) -> int:
        """The last level that any customer can get."""
        return self._calls.policies.last

    def key(self, customer: Name) -> bytes:
        """Returns the key of a customer's count."""
        return self._calls.key(customer, "count")

    def pending_key(self, customer: Name) -> bytes:
        """Returns the key of a customer's pending documents."""
        return self._calls.key(customer, "pending")

    def usage_key(self, customer: Name) -> bytes:
        """Returns the key of what is known of a customer who submits documents."""
        return self._calls.key(customer, "usage")

    def script(self, name: str, customer: Name) -> str:
        """Returns a script with the numbers of the customer's policy: ``next``,
        ``submit``, ``done``, ``peek`` or ``reset``. Its head has its keys and arguments."""
        return self._calls.script(name, customer).text


def checked_timeout(timeout: float) -> float:
    """Returns a timeout in seconds, or raises."""
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise TypeError(f"the timeout is seconds, not {type(timeout).__name__}")
    if not (math.isfinite(timeout) and timeout > 0):
        raise ValueError(f"the timeout {timeout} is not a number of seconds above 0")
    return float(timeout)
