"""The course of one call: its tries, and what became of each. No input or output is done here."""

from __future__ import annotations

import random
import time
from typing import Any, Generic, Optional, TypeVar

from ._answers import Meaning, meaning
from ._calls import Call, Lost
from ._errors import CorruptCountError, NotCountedError, OutcomeUnknownError, PriorityError
from ._nodes import Address, Nodes
from ._protocol import ErrorReply, Reply, encode

T = TypeVar("T")

# Seconds before a further try: doubled each time. A part is left to chance, so that a
# fleet does not come back in one moment.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.004, 0.064

# Of the timeout, that must be left when something is sent: what is sent in the last moment
# is only of unknown outcome.
_SHARE_OF_A_TRY = 0.1

_REDIRECTS_AT_ONCE = 3  # more of them are nodes that do not agree yet


class Unsent(Exception):
    """A request certainly did not arrive whole, and so was not run."""


class Closed(Unsent):
    """The store was closed, so that no further try is of use."""


class Unanswered(Exception):
    """A request was sent, and no answer came."""


class Course(Generic[T]):
    """What to send where, and what its answer means.

    As long as ``over`` is false, wait for ``pause`` seconds, send ``request`` to
    ``address`` before ``send_by``, await the answer until ``deadline``, and say what became
    of it by one of ``answered``, ``unsent`` and ``unanswered``. Then ``result`` returns or
    raises.
    """

    def __init__(self, call: Call[T], nodes: Nodes, timeout: float) -> None:
        self._call = call
        self._nodes = nodes
        self.deadline = time.monotonic() + timeout
        self.send_by = self.deadline - timeout * _SHARE_OF_A_TRY
        self.over = False
        self.pause = 0.0
        self.address: Address = nodes.of(call.keys[0])
        self._with_text = False
        self._asking = False
        self._tries = 0
        self._redirects = 0
        self._may_have_run = False
        self._before = ""  # what became of the try before
        self._failure: Optional[PriorityError] = None
        self._reply: list[Any] = []

    @property
    def replies(self) -> int:
        """How many replies the request has; the last is the call's."""
        return 2 if self._asking else 1

    @property
    def request(self) -> bytes:
        call = self._call
        head = (b"EVAL", call.script.text.encode()) if self._with_text else (b"EVALSHA", call.script.sha1.encode())
        request = encode([*head, b"%d" % len(call.keys), *call.keys, *call.arguments])
        return encode([b"ASKING"]) + request if self._asking else request

    def result(self) -> T:
        if self._failure is not None:
            raise self._failure
        return self._call.read(self._reply)

    def answered(self, reply: Reply) -> None:
        self._nodes.answered(self.address)
        was_asking, self._asking, self.pause = self._asking, False, 0.0
        if isinstance(reply, ErrorReply):
            self._refused(reply.text)
        elif isinstance(reply, list) and len(reply) >= self._call.least and all(type(item) in self._call.takes for item in reply):
            if not was_asking:
                self._nodes.learn(self._call.keys[0], self.address)
            self._reply = reply
            self.over = True
        else:
            self.unanswered(Unanswered("the reply is not the script's"))

    def unsent(self, error: Unsent) -> None:
        """It was certainly not run."""
        self._asking = False
        if isinstance(error, Closed):
            self._end(NotCountedError, str(error), None)
        else:
            self._try_elsewhere()
            self._try_again(NotCountedError, str(error), error.__cause__)

    def unanswered(self, error: Unanswered) -> None:
        """It was sent, and who knows whether it was run."""
        why, cause = str(error), error.__cause__
        self._asking = False
        if self._call.lost is Lost.CHANGES_NOTHING:
            self._try_elsewhere()
            self._try_again(NotCountedError, why, cause)
        elif self._call.lost is Lost.MAY_BE_REPEATED:
            self._may_have_run = True
            self._try_elsewhere()
            self._try_again(OutcomeUnknownError, why, cause)
        else:
            self._nodes.failed(self.address)
            self._end(OutcomeUnknownError, why, cause)

    def _refused(self, text: str) -> None:
        means = meaning(text)
        if means is Meaning.NO_SCRIPT and not self._with_text:
            self._with_text = True
        elif means in (Meaning.MOVED, Meaning.ASK) and self._nodes.are_many:
            self._redirected(means, text)
        elif means is Meaning.REFUSED_FOR_A_MOMENT:
            self._try_elsewhere()
            self._try_again(NotCountedError, text, None)
        elif means in (Meaning.CORRUPT_COUNT, Meaning.CORRUPT_PENDING, Meaning.CORRUPT_USAGE):
            self._end(CorruptCountError, text, None)
        elif means is Meaning.UNKNOWN and self._call.lost is not Lost.CHANGES_NOTHING:
            self._end(OutcomeUnknownError, text, None)
        else:
            self._end(NotCountedError, text, None)

    def _redirected(self, means: Meaning, text: str) -> None:
        self._redirects += 1
        address = self._nodes.named(text, self.address)
        if address is None:
            self._try_elsewhere()
        if address is None or self._redirects > _REDIRECTS_AT_ONCE:
            self._try_again(NotCountedError, text, None)
        if address is None or self.over:
            return
        self.address = address
        if means is Meaning.MOVED:
            self._nodes.learn(self._call.keys[0], address)
        else:
            self._asking = True

    def _try_elsewhere(self) -> None:
        """A node of a cluster that does not serve may have a successor, whom others know."""
        self._nodes.failed(self.address)
        self.address = self._nodes.of(self._call.keys[0])

    def _try_again(self, error: type[PriorityError], why: str, cause: Optional[BaseException]) -> None:
        self._tries += 1
        pause = min(_FIRST_PAUSE * 2 ** min(self._tries - 1, 10), _LONGEST_PAUSE)
        self.pause = pause * random.uniform(0.5, 1)
        if time.monotonic() + self.pause >= self.send_by:
            self._end(error, why, cause)
        else:
            self._before = why

    def _end(self, error: type[PriorityError], why: str, cause: Optional[BaseException]) -> None:
        if self._may_have_run:
            error = OutcomeUnknownError
        if self._before and self._before != why:
            why = f"{why}; before that: {self._before}"
        key = self._key_of(why) if error is CorruptCountError else self._call.keys[0]
        shown = key.decode("utf-8", "backslashreplace")
        self._failure = error(f"{self._call.operation} {shown[:200]!r}: {why}")
        self._failure.__cause__ = cause
        self.over = True

    def _key_of(self, text: str) -> bytes:
        """The key that a CORRUPT… error is about."""
        ends = {Meaning.CORRUPT_PENDING: b"}:pending", Meaning.CORRUPT_USAGE: b"}:usage"}
        end = ends.get(meaning(text), b"}:count")
        return next((key for key in self._call.keys if key.endswith(end)), self._call.keys[0])
