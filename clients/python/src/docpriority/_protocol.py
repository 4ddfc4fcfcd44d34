"""The protocol of Redis, RESP 2: how commands are written, and replies are read. It does no I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

from redis.exceptions import ResponseError

from ._classify import Failure, Refused

Commands = Sequence[Sequence[Union[str, bytes]]]


def packed(commands: Commands) -> bytes:
    """Returns commands as they are sent."""
    parts = []
    for command in commands:
        parts.append(b"*%d\r\n" % len(command))
        for argument in command:
            raw = argument.encode() if isinstance(argument, str) else argument
            parts += (b"$%d\r\n" % len(raw), raw, b"\r\n")
    return b"".join(parts)


class Replies:
    """Reads so many replies, from pieces of any size."""

    def __init__(self, number: int) -> None:
        self._missing = number
        self._data = b""
        self._result: Any = None

    def add(self, data: bytes) -> bool:
        """Adds what has come, and reports whether all replies are here."""
        if not data:
            raise ConnectionError("the other end closed the connection")
        self._data += data
        try:
            while self._missing:
                reply, end = _read(self._data, 0)
                self._data, self._missing = self._data[end:], self._missing - 1
                if not isinstance(self._result, Failure):
                    self._result = reply
        except EOFError:
            return False
        if self._data:
            raise ValueError("there is more than the replies")
        return True

    @property
    def result(self) -> Any:
        """The last reply, or the first that is an error."""
        return self._result


def _read(data: bytes, at: int) -> tuple[Any, int]:
    """Reads a reply, and returns it and where it ends. Raises EOFError if it has not come whole."""
    end = data.find(b"\r\n", at)
    if end < 0:
        raise EOFError
    kind, line, at = data[at : at + 1], data[at + 1 : end], end + 2
    if kind == b"+":
        return line, at
    if kind == b"-":
        text = line.decode("utf-8", "replace")
        return Refused(text, ResponseError(text)), at
    number = int(line)
    if kind == b"$" and number >= 0:
        if len(data) < at + number + 2:
            raise EOFError
        return data[at : at + number], at + number + 2
    if kind == b"*" and number >= 0:
        items = []
        for _ in range(number):
            item, at = _read(data, at)
            items.append(item)
        return items, at
    return number if kind == b":" else None, at
