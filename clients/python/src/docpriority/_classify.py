"""What the failure of a try means, by the words of Redis and the exceptions of redis-py. It does no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

from redis.exceptions import ReadOnlyError, ResponseError

from ._calls import Call, Lost
from ._errors import CorruptError, NotCountedError, OutcomeUnknownError, PriorityError


@dataclass(frozen=True)
class Failure:
    """There was no reply, or the reply was an error."""

    text: str
    cause: Optional[BaseException] = None


class Refused(Failure):
    """The error with which Redis replied."""


class Unsent(Failure):
    """The whole command certainly did not reach Redis, so it was not run."""


class Unanswered(Failure):
    """It was sent, and no reply came: it may have been run."""


_CORRUPT = {"CORRUPTCOUNT ": b"}:count", "CORRUPTPENDING ": b"}:pending"}
# Nothing was changed; a retry may soon work, or never will. redis-py strips "ERR ".
_FOR_A_MOMENT = ("NOSCRIPT ", "LOADING ", "READONLY ", "CLUSTERDOWN ", "TRYAGAIN ", "MASTERDOWN ", "BUSY ", "max number of clients reached")
_FOR_GOOD = (
    "MOVED ", "ASK ", "NOAUTH ", "WRONGPASS ", "NOPERM ", "OOM ", "MISCONF ", "NOREPLICAS ", "CROSSSLOT ",
    "unknown command", "the number of documents", "the cost",
)
# Redis before 7.0 puts other words before a refusal within a script.
_FOR_A_MOMENT_WITHIN = ("-READONLY ", "READONLY You can't write")
_FOR_GOOD_WITHIN = ("-OOM ", "OOM command not allowed", "-MISCONF ", "-NOREPLICAS ")

# The classes to which redis-py maps an error's code, which it then strips.
_CODES = {
    "NoScriptError": "NOSCRIPT", "BusyLoadingError": "LOADING", "ReadOnlyError": "READONLY", "NoPermissionError": "NOPERM",
    "AuthenticationError": "NOAUTH", "OutOfMemoryError": "OOM", "ClusterDownError": "CLUSTERDOWN", "TryAgainError": "TRYAGAIN",
    "MasterDownError": "MASTERDOWN", "ClusterCrossSlotError": "CROSSSLOT", "MovedError": "MOVED", "AskError": "ASK",
}  # fmt: skip


def code_of(error: Optional[BaseException]) -> str:
    """Returns the first word of the error with which Redis replied, or "" if the exception is none."""
    code = _CODES.get(type(error).__name__, "")
    if code or not isinstance(error, ResponseError):
        return code
    word = str(error).partition(" ")[0]
    return word if word.isupper() else "ERR"


def failure_of(error: Exception) -> Failure:
    """Returns the meaning of an exception that redis-py raised after the command was sent."""
    if isinstance(error.__context__, ReadOnlyError):  # a connection through a Sentinel words it differently
        error = error.__context__
    text, stripped = str(error), _CODES.get(type(error).__name__)
    if code_of(error) or text == "max number of clients reached":
        return Refused(f"{stripped} {text}" if stripped else text, error)
    return Unanswered(f"no answer came: {text}", error)


def meaning_of(failure: Failure, lost: Lost) -> tuple[type[PriorityError], bool]:
    """Returns the class of the error that ends the call, and whether a later try may work."""
    if isinstance(failure, Refused):
        if failure.text.startswith(tuple(_CORRUPT)):
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
    key = call.keys[0]
    for code, end in _CORRUPT.items():
        if kind is CorruptError and why.startswith(code):
            key = next((key for key in call.keys if key.endswith(end)), key)
    return kind(f"{call.operation} {key.decode('utf-8', 'backslashreplace')[:200]!r}: {why}")
