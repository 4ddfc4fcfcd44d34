"""README.md does what it says."""

import io
import re
import unittest
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import redis

from .support import HOST, LONG, PORT, needs_redis

README = Path(__file__).resolve().parents[1] / "README.md"


def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.DOTALL | re.MULTILINE)


def block(part: str, address: str, timeout: float) -> str:
    """Returns the block that has a part, with another address and timeout of its store."""
    (found,) = [text for text in blocks() if part in text]
    return found.replace("localhost:6379", address).replace("join=True", f"join=True, timeout={timeout}")


@needs_redis
class Readme(unittest.TestCase):
    def setUp(self) -> None:
        server = redis.Redis(HOST, int(PORT))
        server.flushdb()
        server.close()

    def run_block(self, part: str, more: str = "", address: str = f"{HOST}:{PORT}", timeout: float = LONG) -> tuple[str, dict[str, Any]]:
        names: dict[str, Any] = {"__name__": "readme"}
        with redirect_stdout(io.StringIO()) as printed:
            exec(block(part, address, timeout) + more, names)
        if "store" in names:
            self.addCleanup(names["store"].close)
        return printed.getvalue(), names

    def test_a_document_is_submitted_and_done(self) -> None:
        printed, names = self.run_block('store.done("acme", "invoice-4711"')
        self.assertEqual(printed, "1\n")
        self.assertEqual(names["store"].peek("acme").pending, 0)

    def test_asyncio_does_the_same(self) -> None:
        self.assertEqual(self.run_block("async def main")[0], "[1, 1]\n")

    def test_a_document_goes_on_without_redis(self) -> None:
        printed, names = self.run_block('store.done("acme", "invoice-4711"', address="127.0.0.1:1", timeout=0.05)
        self.assertEqual((printed, names["store"].degraded), ("1\n", True))

    def test_a_test_of_ones_own_passes(self) -> None:
        self.run_block("test_a_flood", "\ntest_a_flood_does_not_delay_others()")
