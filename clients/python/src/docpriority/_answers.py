"""What an error that Redis answers to a script means."""

from __future__ import annotations

import enum


class Meaning(enum.Enum):
    NO_SCRIPT = enum.auto()  # not run: the node does not know the script
    MOVED = enum.auto()  # not run: another node of the cluster has the key
    ASK = enum.auto()  # not run: another node has the key, this time
    REFUSED_FOR_A_MOMENT = enum.auto()  # nothing was changed; soon it may work
    REFUSED = enum.auto()  # nothing was changed
    CORRUPT_COUNT = enum.auto()  # nothing was changed: a key holds something else
    CORRUPT_PENDING = enum.auto()
    CORRUPT_USAGE = enum.auto()
    UNKNOWN = enum.auto()  # it may come from the middle of a script


_BEGINNINGS = {
    Meaning.NO_SCRIPT: ("NOSCRIPT ",),
    Meaning.MOVED: ("MOVED ",),
    Meaning.ASK: ("ASK ",),
    Meaning.CORRUPT_COUNT: ("CORRUPTCOUNT ",),
    Meaning.CORRUPT_PENDING: ("CORRUPTPENDING ",),
    Meaning.CORRUPT_USAGE: ("CORRUPTUSAGE ",),
    Meaning.REFUSED_FOR_A_MOMENT: (
        "LOADING ",
        "READONLY ",
        "CLUSTERDOWN ",
        "TRYAGAIN ",
        "MASTERDOWN ",
        "BUSY ",
        "ERR max number of clients reached",
    ),
    Meaning.REFUSED: (
        "NOAUTH ",
        "WRONGPASS ",
        "NOPERM ",
        "OOM ",
        "MISCONF ",
        "NOREPLICAS ",
        "CROSSSLOT ",
        "ERR unknown command",
        "ERR the number of documents",
        "ERR the cost",
    ),
}

# Redis before 7.0 gives a refusal within a script after words of its own.
_WITHIN = {
    Meaning.REFUSED_FOR_A_MOMENT: ("-READONLY ", "READONLY You can't write"),
    Meaning.REFUSED: ("-OOM ", "OOM command not allowed", "-MISCONF ", "-NOREPLICAS "),
}


def meaning(text: str) -> Meaning:
    """Returns what an error's text means."""
    for means, beginnings in _BEGINNINGS.items():
        if text.startswith(beginnings):
            return means
    for means, parts in _WITHIN.items():
        if any(part in text for part in parts):
            return means
    return Meaning.UNKNOWN


def ends_connection(text: str) -> bool:
    """Reports whether a new connection may find another server, or be let in."""
    return text.startswith(("NOAUTH ", "WRONGPASS ", "ERR max number of clients")) or (
        text.startswith("READONLY ") or any(part in text for part in _WITHIN[Meaning.REFUSED_FOR_A_MOMENT])
    )


def lets_nobody_in(text: str) -> bool:
    """Reports whether a server that answers this to a PING serves this connection not at all."""
    return text.startswith(("ERR max number of clients", "DENIED "))
