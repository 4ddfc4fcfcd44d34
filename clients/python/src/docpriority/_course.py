"""The course of one call: what is sent, where, and what its outcome means. It does no I/O."""

from __future__ import annotations

import math
import random
import re
import time
from collections import defaultdict
from collections.abc import Generator, Iterable, Sequence
from typing import Any, Callable, NamedTuple, Optional, Tuple, TypeVar, Union

from redis.crc import key_slot

from ._calls import Call
from ._classify import Failure, Refused, Unanswered, Unsent, error_of, meaning_of
from ._errors import NotCountedError, OutcomeUnknownError
from ._scripts import Script

T = TypeVar("T")

Address = Optional[Tuple[str, int]]
"""A node of a cluster by its host and port; None: the one server."""


Commands = Sequence[Sequence[Union[str, bytes]]]


class Deadline:
    """When a call ends. While the event loop pauses it reads no answers, so a pause does not count."""

    def __init__(self, timeout: float) -> None:
        self.timeout, self._at = timeout, time.monotonic() + timeout
        self._pauses: Callable[[], float] = float  # how long the call's event loop has paused
        self._before = 0.0  # the call
        self.starved = False  # whether other calls had the connections, and were answered

    def left(self) -> float:
        return self._at + self._paused() - time.monotonic()

    def follow(self, pauses: Callable[[], float]) -> None:
        if self._pauses is float:
            self._pauses, self._before = pauses, pauses()

    def was_mostly_paused(self) -> bool:
        return self._paused() > self.timeout / 2

    def _paused(self) -> float:
        return self._pauses() - self._before


class Clock:
    """How far Redis's clock is ahead of this process's, at most. The replies to timed calls teach it: Redis read its
    clock after each was sent."""

    _ahead: Optional[float] = None  # milliseconds; None: it is not known

    def deadline(self, deadline: Deadline) -> int:
        """Returns when a call ends by Redis's clock, or a little later; 0: that is not known."""
        ahead = self._ahead
        return 0 if ahead is None else math.ceil(1000 * (time.monotonic() + deadline.left()) + ahead)

    def learn(self, now_there: int, sent: float) -> None:
        """Learns from the reply to a call that was sent then. Of several, the least is the best."""
        ahead, known = now_there + 1 - 1000 * sent, self._ahead
        self._ahead = ahead if known is None else min(known, ahead)

    def forget(self) -> None:
        """Forgets what is known of a clock that has stepped on."""
        self._ahead = None


class Try(NamedTuple):
    """Commands to send to a server, on one connection; the reply to the final one is the result."""

    commands: Commands
    address: Address
    deadline: Deadline
    clock: Optional[Clock] = None  # by which the deadline is the final argument

    def to_send(self) -> Commands:
        """Returns the commands, now that there is a connection: until then, pauses may have moved the deadline."""
        if self.clock is None:
            return self.commands
        *before, command = self.commands
        return [*before, [*command, str(self.clock.deadline(self.deadline))]]


class Pause(NamedTuple):
    seconds: float
    deadline: Deadline


Steps = Generator[Union[Try, Pause], Any, T]
"""Yields tries and pauses, gets the reply or a Failure for each try, and returns the call's result."""

# Seconds before a further try: doubled each time, with jitter, so that a fleet does not return all at once.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.004, 0.064
_SHARE_OF_A_TRY = 0.1  # of the timeout that must be left for a further try
_MOST_AT_ONCE = 4  # tries after a redirect, or after a script was loaded
_MOST_SCRIPTS = 10_000  # remembered as loaded

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
        self.clocks: defaultdict[Address, Clock] = defaultdict(Clock)
        # Which servers have which scripts: until when a call may load it, and None afterwards.
        self.scripts: dict[tuple[Address, str], Optional[Deadline]] = {}

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
        self._failing[address] = None


def course(call: Call[T], nodes: Nodes, deadline: Deadline) -> Steps[T]:
    """Makes a call. It retries only what certainly was not run, or may be run twice.

    A redirect is followed and a script is loaded at once, a few times in a row, and a connection that was closed while
    it was idle is replaced at once, as often as there are such. Any other retry comes after a pause, if enough of the
    timeout is left. After a reply was lost the outcome stays unknown, whatever later tries are told.
    """
    key, script = call.keys[0], call.script
    address, asking = nodes.address_of(key), False
    tries, at_once, unknown = 0, 0, False
    may_have_run, is_timed = False, call.timed
    before: Failure = Unsent("")
    while True:
        outcome = yield from _loaded(script, nodes, address, deadline)
        clock, sent = nodes.clocks[address], time.monotonic()
        if not isinstance(outcome, Unsent):
            # Where SCRIPT is not to be had, the text goes along. By EVAL alone, Redis 7.4 and later would forget it again.
            command: list[Union[str, bytes]] = ["EVAL", script.text] if unknown and isinstance(outcome, Failure) else ["EVALSHA", script.sha1]
            command += [str(len(call.keys)), *call.keys, *call.arguments]
            if call.timed and not is_timed:
                command.append("0")
            outcome = yield Try([("ASKING",), command] if asking else [command], address, deadline, clock if is_timed else None)
        if isinstance(outcome, list) and len(outcome) >= call.least and all(type(item) in call.takes for item in outcome):
            if not asking:
                nodes.answered(key, address)
            if call.timed and len(outcome) > call.least:
                clock.learn(outcome.pop(), sent)
            return call.read(outcome, False)
        failure = outcome if isinstance(outcome, Failure) else Unanswered("unexpected reply")
        kind, again = meaning_of(failure, call.lost)
        may_have_run = may_have_run or kind is OutcomeUnknownError
        if isinstance(failure, Refused):
            if failure.text.startswith("NOSCRIPT ") and at_once < _MOST_AT_ONCE:
                at_once, unknown = at_once + 1, True
                nodes.scripts.pop((address, script.sha1), None)
                continue
            if failure.text.startswith("LATE ") and is_timed and deadline.left() > 0:
                clock.forget()  # it has stepped on, because the call still waits
                before, is_timed = failure, False
                continue
            redirected = nodes.redirected(failure.text, address)
            if redirected is not None:
                kind, again = NotCountedError, True
                if at_once < _MOST_AT_ONCE:
                    at_once += 1
                    address, asking = redirected, failure.text.startswith("ASK ")
                    continue
            if failure.text.startswith("TRYAGAIN ") and call.override is not None and not may_have_run:
                # While its slot moves, Redis takes the keys one by one.
                call = call.alone((yield from course(call.override, nodes, deadline)))
                continue
        if again and failure.was_idle and deadline.left() > 0:
            before = failure
            continue
        if again or isinstance(failure, Unanswered):
            nodes.failed(address)
            address, asking = nodes.address_of(key), False
        pause = min(_FIRST_PAUSE * 2 ** min(tries, 10), _LONGEST_PAUSE) * random.uniform(0.5, 1)
        if not again or pause >= deadline.left() - deadline.timeout * _SHARE_OF_A_TRY:
            why = f"{failure.text}; before that: {before.text}" if before.text not in ("", failure.text) else failure.text
            if may_have_run:
                kind = OutcomeUnknownError
            raise error_of(call, kind, why) from failure.cause or before.cause
        tries, at_once, before = tries + 1, 0, failure
        yield Pause(pause, deadline)


def _loaded(script: Script, nodes: Nodes, address: Address, deadline: Deadline) -> Steps[Any]:
    """Loads a script that a server may not have, once: other calls wait meanwhile. Returns the failure, if any."""
    place, scripts = (address, script.sha1), nodes.scripts
    if len(scripts) >= _MOST_SCRIPTS:
        scripts.clear()
    pause = _FIRST_PAUSE
    while (until := scripts.setdefault(place, deadline)) is not deadline:  # the very one of this call
        if until is None or min(until.left(), deadline.left()) <= 0:
            return None
        yield Pause(pause, deadline)
        pause = min(2 * pause, _LONGEST_PAUSE)
    outcome: Any = None
    try:
        outcome = yield Try([("SCRIPT", "LOAD", script.text)], address, deadline)
    finally:
        # A server that refuses it, or hangs up, will again.
        if isinstance(outcome, (bytes, Refused)) or isinstance(outcome, Unanswered) and deadline.left() > 0:
            scripts[place] = None
        else:
            scripts.pop(place, None)
    return outcome
