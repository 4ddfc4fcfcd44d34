"""The course of one call: what is sent, where, and what its outcome means. It does no I/O."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Generator, Iterable, Sequence
from typing import Any, Callable, NamedTuple, Optional, Tuple, TypeVar, Union

from redis.crc import key_slot

from ._calls import Call, Lost
from ._classify import Failure, Refused, Unanswered, error_of, meaning_of
from ._errors import NotCountedError, OutcomeUnknownError

T = TypeVar("T")

Address = Optional[Tuple[str, int]]
"""A node of a cluster by its host and port; None: the one server."""


class Try(NamedTuple):
    """Commands to send to a server, on one connection; the reply to the final one is the result."""

    commands: Sequence[Sequence[Union[str, bytes]]]
    address: Address
    pause: float  # seconds to wait before
    deadline: float


Steps = Generator[Try, Any, T]
"""Yields tries, gets the reply or a Failure for each, and returns the call's result."""

# Seconds before a further try: doubled each time, with jitter, so that a fleet does not return all at once.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.004, 0.064
_SHARE_OF_A_TRY = 0.1  # of the timeout that must be left for a further try
_MOST_AT_ONCE = 4  # tries after a redirect, or after a script was loaded

_REDIRECT = re.compile(r"(MOVED|ASK) \d+ (.*):(\d+)")


class Nodes:
    """Knows which server has a key: the only one, or a node of a Redis Cluster.

    The caller's client knows the nodes; what they redirect to is learned. A node that failed is asked only where
    another one names it, until it answers: its slots may have another master. Threads may use it together.
    """

    def __init__(self, hint: Optional[Callable[[bytes], Address]] = None, addresses: Iterable[Tuple[str, int]] = ()) -> None:
        self._hint = hint
        self._addresses = dict.fromkeys(addresses)
        self._learned: dict[int, Address] = {}
        self._failing: dict[Address, None] = {}

    def address_of(self, key: bytes) -> Address:
        if self._hint is None:
            return None
        address = self._learned.get(key_slot(key)) or self._hint(key)
        if address is not None and address not in self._failing:
            return address
        addresses = list(self._addresses)
        return random.choice([node for node in addresses if node not in self._failing] or addresses)

    def redirected(self, text: str, by: Address) -> Address:
        """Returns the node that an error's text redirects to, if it does and this is a cluster."""
        redirect = _REDIRECT.fullmatch(text)
        if redirect is None or by is None:
            return None
        address = (redirect[2] or by[0], int(redirect[3]))  # a node may not know its own name
        self._addresses[address] = None
        return address

    def answered(self, key: bytes, address: Address) -> None:
        if address is not None:
            self._failing.pop(address, None)
            self._learned[key_slot(key)] = address

    def failed(self, address: Address) -> None:
        if address is not None:
            self._failing[address] = None


def course(call: Call[T], nodes: Nodes, timeout: float) -> Steps[T]:
    """Makes a call. It retries only what certainly was not run, or may be run twice.

    A redirect is followed and a script is loaded at once, a few times in a row. Any other retry comes after a pause, if
    enough of the timeout is left. After a reply was lost the outcome stays unknown, whatever later tries are told.
    """
    key, script = call.keys[0], call.script
    command: Sequence[Union[str, bytes]] = ("EVALSHA", script.sha1, str(len(call.keys)), *call.keys, *call.arguments)
    deadline, address, asking = time.monotonic() + timeout, nodes.address_of(key), False
    tries, at_once = 0, 0
    pause, may_have_run, before = 0.0, False, ""
    while True:
        outcome = yield Try([("ASKING",), command] if asking else [command], address, pause, deadline)
        if isinstance(outcome, list) and len(outcome) >= call.least and all(type(item) in call.takes for item in outcome):
            if not asking:
                nodes.answered(key, address)
            return call.read(outcome, False)
        pause, lost = 0.0, call.lost
        if isinstance(outcome, Refused) and outcome.text.startswith("NOSCRIPT ") and at_once < _MOST_AT_ONCE:
            # By EVAL, Redis 7.4 and later would forget it again.
            loaded = yield Try([("SCRIPT", "LOAD", script.text)], address, 0, deadline)
            if isinstance(loaded, Failure):  # SCRIPT is not to be had here
                command = ("EVAL", script.text, *command[2:])
            at_once += 1
            continue
        failure = outcome if isinstance(outcome, Failure) else Unanswered("unexpected reply")
        kind, again = meaning_of(failure, lost)
        redirected = nodes.redirected(failure.text, address) if isinstance(failure, Refused) else None
        if redirected is not None:
            kind, again = NotCountedError, True
            if at_once < _MOST_AT_ONCE:
                at_once += 1
                address, asking = redirected, failure.text.startswith("ASK ")
                continue
        if again or isinstance(failure, Unanswered):
            nodes.failed(address)
            address, asking = nodes.address_of(key), False
        may_have_run = may_have_run or kind is OutcomeUnknownError
        pause = min(_FIRST_PAUSE * 2 ** min(tries, 10), _LONGEST_PAUSE) * random.uniform(0.5, 1)
        if not again or time.monotonic() + pause >= deadline - timeout * _SHARE_OF_A_TRY:
            why = f"{failure.text}; before that: {before}" if before not in ("", failure.text) else failure.text
            if may_have_run:
                kind = OutcomeUnknownError
            raise error_of(call, kind, why) from failure.cause
        tries, at_once, before = tries + 1, 0, failure.text
