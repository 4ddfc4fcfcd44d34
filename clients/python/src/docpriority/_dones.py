"""The Dones that Redis has not answered."""

from __future__ import annotations

import logging
import math
import os
import time
from collections import Counter
from dataclasses import replace
from typing import Any, Callable

from ._calling import Calling
from ._calls import Call
from ._course import Deadline, Pause, Steps, course
from ._errors import CorruptError, PriorityError
from ._lock import Lock

_log = logging.getLogger("docpriority")

_MOST_DOCUMENTS = 10_000
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0  # seconds, after a failure: doubled each time
_DAY = 86_400  # seconds: Redis knows no older document


class Dones:
    """Sends Redis the Dones that it has not answered, in the background, until it does: else their documents would look
    pending. Each says how long ago it was, so that a document that was submitted again meanwhile stays pending."""

    def __init__(self, calling: Calling, succeeded: Callable[[Call[Any]], None]) -> None:
        self._calling, self._succeeded = calling, succeeded
        self._begin()

    def _begin(self) -> None:
        """Begins without any, in this process: what a parent owes after a fork stays the parent's."""
        self._lock = Lock()
        self._owed: dict[tuple[bytes, ...], tuple[float, Call[Any]]] = {}  # by key and documents
        self._documents = 0
        self._until = math.inf
        self._is_sending = False
        self._pid = os.getpid()

    def owe(self, call: Call[Any], since: float) -> None:
        """Remembers a Done, and when it was. If there are too many, the customer with the most loses some."""
        place = (call.keys[0], *call.arguments[2:])
        with self._lock:
            self._forget(place)
            self._owed[place] = since, call
            self._documents += call.documents
            while self._documents > _MOST_DOCUMENTS:
                fullest, calls = Counter(key for key, *_ in self._owed).most_common(1)[0]
                for place in [place for place in self._owed if place[0] == fullest][: (calls + 1) // 2]:
                    self._forget(place)
        self.send()

    def _forget(self, place: tuple[bytes, ...]) -> None:
        if place in self._owed:
            self._documents -= self._owed.pop(place)[1].documents

    def send(self) -> None:
        """Ensures that what is owed is sent in the background."""
        if self._pid != os.getpid():
            self._begin()
        if self._owed and not self._is_sending:
            self._is_sending = True
            if not self._calling.start(self._calling.run_steps, self._in_background(), here=False):
                self._is_sending = False

    def _in_background(self) -> Steps[None]:
        try:
            yield from self._send()
        finally:
            self._is_sending = False

    def flush(self, seconds: float) -> Steps[None]:
        """Sends what is owed, for so long at most; then nothing is sent any more."""
        if self._pid != os.getpid():
            self._begin()
        self._until = time.monotonic() + seconds
        yield from self._send()
        if self._owed:
            _log.warning("docpriority: Redis was not told that documents are done (%d): they may look pending until their leases end", self._documents)

    def _send(self) -> Steps[None]:
        failures = 0
        while self._owed:
            for place, (since, call) in list(self._owed.items()):
                now = time.monotonic()
                if now >= self._until:
                    return
                deadline = Deadline(min(self._calling.timeout, self._until - now))
                if now - since > _DAY or (yield from self._was_sent(call, now - since, deadline)):
                    failures = 0
                    with self._lock:
                        if self._owed.get(place) == (since, call):  # else it was submitted and done again
                            self._forget(place)
                else:
                    failures += 1
                    yield Pause(min(_FIRST_PAUSE * 2 ** min(failures, 10), _LONGEST_PAUSE), deadline)

    def _was_sent(self, call: Call[Any], age: float, deadline: Deadline) -> Steps[bool]:
        """Sends a Done, and reports whether Redis has answered."""
        ages = b" ".join([b"%d" % (1000 * age)] * call.documents)
        late = replace(call, arguments=[call.arguments[0], ages, *call.arguments[2:]])
        try:
            yield from course(late, self._calling.nodes, deadline)
        except CorruptError:
            return True
        except PriorityError:
            return False
        self._succeeded(late)
        return True
