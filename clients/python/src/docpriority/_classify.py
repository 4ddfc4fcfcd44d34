"""What the failure of a try means, by the words of Redis and the exceptions of redis-py. It does no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

from redis.exceptions import ResponseError

from ._calls import Call, Lost
from ._errors import CorruptError, NotCountedError, OutcomeUnknownError, PriorityError


@dataclass(frozen=True)
class Failure:
    """There was no reply, or the reply was an error."""

    text: str
    cause: Optional[BaseException] = None
    was_idle: bool = False  # the connection had waited for this try, and is closed now


class Refused(Failure):
    """The error with which Redis replied."""


class Unsent(Failure):
    """The whole command certainly did not reach Redis, so it was not run."""


class Unanswered(Failure):
    """It was sent, and no reply came: it may have been run."""


_CORRUPT = ("CORRUPTCOUNT ", "CORRUPTPENDING ")
# Nothing was changed; a retry may soon work, or never will.
_FOR_A_MOMENT = ("NOSCRIPT ", "LATE ", "LOADING ", "READONLY ", "CLUSTERDOWN ", "TRYAGAIN ", "MASTERDOWN ", "BUSY ", "ERR max number of clients reached")
_FOR_GOOD = (
    "MOVED ", "ASK ", "NOAUTH ", "WRONGPASS ", "NOPERM ", "OOM ", "MISCONF ", "NOREPLICAS ", "CROSSSLOT ",
    "ERR unknown command", "ERR the number of documents", "ERR the cost", "ERR the delay",
)
# Redis before 7.0 puts other words before a refusal within a script.
_FOR_A_MOMENT_WITHIN = ("-READONLY ", "READONLY You can't write")
_FOR_GOOD_WITHIN = ("-OOM ", "OOM command not allowed", "-MISCONF ", "-NOREPLICAS ")
# A new connection may find another server, or be let in.
_ELSEWHERE = ("LOADING ", "MASTERDOWN ", "NOAUTH ", "ERR max number of clients reached")


def code_of(error: Optional[BaseException]) -> str:
    """Returns the first word of the error with which Redis replied, or "" if the exception is none."""
    return str(error).partition(" ")[0] if isinstance(error, ResponseError) else ""


def is_usable(outcome: Any) -> bool:
    """Reports whether a connection is usable after a try: it owes no reply, and a new one could not do better."""
    if not isinstance(outcome, Failure):
        return True
    return isinstance(outcome, Refused) and not outcome.text.startswith(_ELSEWHERE) and "READONLY " not in outcome.text


def meaning_of(failure: Failure, lost: Lost) -> tuple[type[PriorityError], bool]:
    """Returns the class of the error that ends the call, and whether a later try may work."""
    if isinstance(failure, Refused):
        if failure.text.startswith(_CORRUPT):
            return CorruptError, False
        if failure.text.startswith(_FOR_A_MOMENT) or any(part in failure.text for part in _FOR_A_MOMENT_WITHIN):
            return NotCountedError, True
        certain = lost is Lost.CHANGES_NOTHING or failure.text.startswith(_FOR_GOOD) or any(part in failure.text for part in _FOR_GOOD_WITHIN)
        return NotCountedError if certain else OutcomeUnknownError, False
    if isinstance(failure, Unanswered) and lost is not Lost.CHANGES_NOTHING:
        return OutcomeUnknownError, lost is Lost.MAY_BE_REPEATED
    return NotCountedError, True


def error_of(call: Call[Any], kind: type[PriorityError], why: str) -> PriorityError:
    """Returns the error that ends a call: it names the key."""
    named = [key for key in call.keys if kind is CorruptError and key.decode(errors="replace") in why]  # of an account, too
    key = (named or call.keys)[0]
    return kind(f"{call.operation} {key.decode('utf-8', 'backslashreplace')[:200]!r}: {why}")
