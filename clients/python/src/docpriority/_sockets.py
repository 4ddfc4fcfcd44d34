"""What both kinds of connections ask a socket."""

from __future__ import annotations

import select
from typing import Any


def readable(sock: Any) -> bool:
    """Reports whether something has come, or the end of the connection."""
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        return bool(poll.poll(0))
    return bool(select.select([sock], [], [], 0)[0])
