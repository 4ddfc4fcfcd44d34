"""Redis's protocol, as far as scripts need it. No input or output is done here.

The store reads answers itself because redis-py does not hand out the text of an error,
by which what was counted is told from what was not.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Union


class ErrorReply:
    """An error that Redis answered."""

    def __init__(self, text: str) -> None:
        self.text = text


Reply = Union[int, bytes, None, list[Any], ErrorReply]


class ProtocolError(Exception):
    """What came is no answer of Redis."""


def encode(arguments: Iterable[bytes]) -> bytes:
    """Returns a command as it is sent."""
    parts = [b"$%d\r\n%b\r\n" % (len(argument), argument) for argument in arguments]
    return b"*%d\r\n%b" % (len(parts), b"".join(parts))


class ReplyReader:
    """Makes replies of what arrives, in pieces of any size."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    @property
    def empty(self) -> bool:
        """Nothing has arrived that is not part of a reply."""
        return not self._buffer

    def feed(self, data: bytes) -> list[Reply]:
        """Adds what arrived and returns the replies that are complete by it."""
        self._buffer += data
        replies: list[Reply] = []
        while self._buffer:
            is_push = self._buffer[:1] == b">"  # what the server says unasked, in its protocol 3
            try:
                reply, end = self._parse(0)
            except _Incomplete:
                break
            except (ValueError, IndexError, RecursionError) as error:
                raise ProtocolError(f"{bytes(self._buffer[:80])!r} is no reply") from error
            del self._buffer[:end]
            if not is_push:
                replies.append(reply)
        return replies

    def _parse(self, at: int) -> tuple[Reply, int]:
        """Returns the reply that begins at a place, and where it ends."""
        line_end = self._buffer.find(b"\r\n", at)
        if line_end < 0:
            raise _Incomplete
        kind, rest, end = self._buffer[at : at + 1], bytes(self._buffer[at + 1 : line_end]), line_end + 2
        if kind == b":":
            return int(rest), end
        if kind == b"-":
            return ErrorReply(rest.decode("utf-8", "replace")), end
        if kind == b"+":
            return rest, end
        if kind == b"_" or kind in (b"$", b"*") and rest == b"-1":
            return None, end
        if kind == b"$":
            length = int(rest)
            if length < 0:
                raise ValueError("a length is not below 0")
            if len(self._buffer) < end + length + 2:
                raise _Incomplete
            return bytes(self._buffer[end : end + length]), end + length + 2
        if kind in (b"*", b">"):
            items: list[Reply] = []
            for _ in range(int(rest)):
                item, end = self._parse(end)
                items.append(item)
            return items, end
        raise ValueError(f"{kind!r} begins no reply")


class _Incomplete(Exception):
    pass
