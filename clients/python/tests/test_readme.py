"""README.md does what it says."""

import io
import re
import unittest
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

import redis

from docpriority._base import Base

from .support import HOST, PORT, needs_redis

DEFAULTS = Base.__init__.__kwdefaults__  # of the stores' options
README = Path(__file__).resolve().parents[1] / "README.md"


def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.DOTALL | re.MULTILINE)


def block(part: str) -> str:
    (found,) = [text for text in blocks() if part in text]
    return found.replace("localhost:6379", f"{HOST}:{PORT}")


@needs_redis
class Readme(unittest.TestCase):
    def setUp(self) -> None:
        server = redis.Redis(HOST, int(PORT))
        server.flushdb()
        server.close()
        patience = mock.patch.dict(DEFAULTS, timeout=60)  # the machine may be slow
        patience.start()
        self.addCleanup(patience.stop)

    def run_block(self, part: str, more: str = "") -> tuple[str, dict[str, Any]]:
        names: dict[str, Any] = {"__name__": "readme"}
        with redirect_stdout(io.StringIO()) as printed:
            exec(block(part) + more, names)
        self.addCleanup(names["store"].close if "store" in names else lambda: None)
        return printed.getvalue(), names

    def test_there_are_no_other_blocks(self) -> None:
        self.assertEqual(len(blocks()), 4)

    def test_a_document_is_submitted_and_done(self) -> None:
        printed, names = self.run_block('store.done("acme", "invoice-1"')
        self.assertEqual(printed, "1\n")
        self.assertEqual(names["store"].peek("acme").pending, 0)

    def test_asyncio_does_the_same(self) -> None:
        self.assertEqual(self.run_block("async def main")[0], "[1, 1]\n")

    def test_a_document_goes_on_without_redis(self) -> None:
        text = block('store.done("acme", "invoice-1"').replace(f"{HOST}:{PORT}", "127.0.0.1:1")
        with mock.patch.dict(DEFAULTS, timeout=0.05), redirect_stdout(io.StringIO()) as printed:
            names: dict[str, Any] = {}
            exec(text, names)
            self.assertTrue(names["store"].degraded)
            names["store"].close()
        self.assertEqual(printed.getvalue(), "1\n")

    def test_a_test_of_ones_own_passes(self) -> None:
        self.run_block("test_a_flood", "\ntest_a_flood_does_not_delay_others()")


if __name__ == "__main__":
    unittest.main()
