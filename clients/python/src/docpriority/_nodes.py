"""Where a key is: on the one server, or on a node of a Redis Cluster."""

from __future__ import annotations

import random
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Callable, Optional, Tuple

from redis.crc import key_slot

Address = Optional[Tuple[str, int]]
"""A node of a cluster by its host and port; None: the one server."""

_NAMED = re.compile(r"(?:MOVED|ASK) \d+ (.*):(\d+)")


class Nodes(ABC):
    """Knows where keys are. Threads may use it together."""

    are_many: bool

    @abstractmethod
    def of(self, key: bytes) -> Address:
        """Returns the node to ask for a key."""

    @abstractmethod
    def named(self, text: str, by: Address) -> Address:
        """Returns the node that a MOVED or ASK names; None: it names none."""

    def learn(self, key: bytes, address: Address) -> None:
        """The node has the key."""

    def failed(self, address: Address) -> None:
        """The node does not serve."""

    def answered(self, address: Address) -> None:
        """The node answers."""


class OneServer(Nodes):
    are_many = False

    def of(self, key: bytes) -> Address:
        return None

    def named(self, text: str, by: Address) -> Address:
        return None


class ClusterNodes(Nodes):
    """Learns from the nodes' own answers where slots are.

    What the caller's client knows is where to begin. A node that failed is asked only where
    another one names it, until it answers: its slots may have another master now. Each
    dictionary is changed by one operation at a time, which Python does whole.
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
        self._failing: dict[Address, bool] = {}

    def of(self, key: bytes) -> Address:
        address = self._learned.get(key_slot(key)) or self._hint(key)
        if address is not None and address not in self._failing:
            return address
        known = list(self._known)
        good = [node for node in known if node not in self._failing]
        return random.choice(good or known)

    def named(self, text: str, by: Address) -> Address:
        found = _NAMED.fullmatch(text)
        if found is None:
            return None
        host = found[1]
        if not host and by is not None:  # the node does not know its own name
            host = by[0]
        address = self._remap(host, int(found[2]))
        self._known[address] = True
        return address

    def learn(self, key: bytes, address: Address) -> None:
        if address is not None:
            self._learned[key_slot(key)] = address

    def failed(self, address: Address) -> None:
        self._failing[address] = True

    def answered(self, address: Address) -> None:
        self._failing.pop(address, None)
