"""Where a key is: on the one server, or on a node of a Redis Cluster."""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Callable, Optional, Tuple

from redis.crc import key_slot

Address = Optional[Tuple[str, int]]
"""A node of a cluster by its host and port; None: the one server."""

# Seconds for which a node that failed is asked only where another one says so.
_SUSPECT = 1.0


class Nodes(ABC):
    """Knows where keys are. Threads may use it together."""

    are_many: bool

    @abstractmethod
    def of(self, key: bytes) -> Address:
        """Returns the node to ask for a key."""

    @abstractmethod
    def named(self, text: str, by: Address) -> Address:
        """Returns the node that a MOVED or ASK names."""

    def moved(self, key: bytes, text: str, by: Address) -> Address:
        """Learns from a MOVED of a node, and returns the node that has the key."""
        return self.named(text, by)

    def failed(self, address: Address) -> None:
        """The node did not answer."""

    def answered(self, address: Address) -> None:
        """The node answered."""


class OneServer(Nodes):
    are_many = False

    def of(self, key: bytes) -> Address:
        return None

    def named(self, text: str, by: Address) -> Address:
        return None


class ClusterNodes(Nodes):
    """Learns from the nodes' own MOVED where slots are.

    What the caller's client knows is where to begin. Each dictionary is changed by one
    operation at a time, which Python does whole.
    """

    are_many = True

    def __init__(
        self,
        known: Iterable[Tuple[str, int]],
        hint: Callable[[bytes], Address],
        remap: Callable[[str, int], Tuple[str, int]],
    ) -> None:
        self._known = dict.fromkeys(known, True)
        self._hint = hint
        self._remap = remap
        self._learned: dict[int, Tuple[str, int]] = {}
        self._failed_at: dict[Address, float] = {}

    def of(self, key: bytes) -> Address:
        address = self._learned.get(key_slot(key)) or self._hint(key)
        if address is not None and not self._is_suspect(address):
            return address
        known = list(self._known)
        good = [node for node in known if not self._is_suspect(node)]
        return random.choice(good or known)

    def named(self, text: str, by: Address) -> Address:
        host, _, port = text.split(" ")[2].rpartition(":")
        if not host and by is not None:  # the node does not know its own name
            host = by[0]
        address = self._remap(host, int(port))
        self._known[address] = True
        return address

    def moved(self, key: bytes, text: str, by: Address) -> Address:
        address = self.named(text, by)
        assert address is not None
        self._learned[key_slot(key)] = address
        return address

    def failed(self, address: Address) -> None:
        self._failed_at[address] = time.monotonic()

    def answered(self, address: Address) -> None:
        if address in self._failed_at:
            self._failed_at.pop(address, None)

    def _is_suspect(self, address: Address) -> bool:
        at = self._failed_at.get(address)
        return at is not None and time.monotonic() - at < _SUSPECT
