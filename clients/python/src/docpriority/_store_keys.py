"""What both stores tell without asking Redis."""

from __future__ import annotations

from ._calls import Calls
from ._keys import Name


class Keys:
    """A customer's keys and scripts. Another program that uses them shares the counts."""

    _calls: Calls

    @property
    def last(self) -> int:
        """The last level that any customer can get."""
        return self._calls.own.last

    def key(self, customer: Name) -> bytes:
        """Returns the key of a customer's count."""
        return self._calls.key(customer, "count")

    def pending_key(self, customer: Name) -> bytes:
        """Returns the key of a customer's pending documents."""
        return self._calls.key(customer, "pending")

    def usage_key(self, customer: Name) -> bytes:
        """Returns the key of what is known of a customer who submits documents."""
        return self._calls.key(customer, "usage")

    def override_key(self, customer: Name) -> bytes:
        """Returns the key of what operators have set for a customer."""
        return self._calls.key(customer, "override")

    def script(self, name: str, customer: Name) -> str:
        """Returns a script with the numbers of the customer's policy: ``next``,
        ``submit``, ``done``, ``peek`` or ``reset``. Its head has its keys and arguments."""
        return self._calls.script(name, customer).text
