"""The vectors that any port can be tested with: see vectors/README.md."""

import json
import time
import unittest
from datetime import timedelta
from typing import Any, Optional

import docpriority
from docpriority import Policy, ResetMode
from docpriority._keys import key_of

from .support import LONG, VECTORS, StoreCase, both_kinds, needs_redis, prefix

# How many milliseconds of Redis's time stand for one of a case's, of what concerns the
# count: a server's clock cannot be moved, but TTLs can be. Half a stretch more makes "exactly
# then" and "a millisecond later" different, however slow the test is.
STRETCH = 50_000


def stretched(milliseconds: int) -> int:
    return milliseconds * STRETCH + STRETCH // 2


def cases() -> list[tuple[str, dict[str, Any]]]:
    return [
        (file, case)
        for file in ("rule.json", "submit.json", "edges.json")
        for case in json.loads((VECTORS / file).read_text())["cases"]
    ]


@needs_redis
class Vectors(StoreCase):
    def test_decisions_are_those_of_the_vectors(self) -> None:
        for file, case in cases():
            with self.subTest(f"{file}: {case['name']}"):
                self.run_case(case)

    def run_case(self, case: dict[str, Any]) -> None:
        self.case, self.prefix, self.began = case, prefix(), time.monotonic()
        self.server = self.redis()
        self.stores: dict[int, Any] = {}
        customers = sorted({step["customer"] for step in case["steps"]})
        now = 0
        for step in case["steps"]:
            if step["at_ms"] > now:
                for customer in customers:
                    self.server.eval((VECTORS / "pass.lua").read_text(), 3, *self.keys(customer), step["at_ms"] - now, STRETCH)
                now = step["at_ms"]
            self.step(step)
        self.server.delete(*(key for customer in customers for key in self.keys(customer)))

    def step(self, step: dict[str, Any]) -> None:
        where = json.dumps(step)[:300]
        if step["do"] == "set":
            key = step.get("key", "count")
            ttl: Optional[int] = step.get("ttl_ms")
            if ttl is not None and key == "count":
                ttl = stretched(ttl)
            self.server.set(self.key(step["customer"], key), step["value"], px=ttl)
            return
        if "error" in step:
            with self.assertRaises(docpriority.CorruptCount, msg=where) as raised:
                self.do(step)
            self.assertIn(step["error"], str(raised.exception), where)
            return
        decisions = self.do(step)
        if "want" in step:
            self.assertEqual([self.shown(decision) for decision in decisions], step["want"], where)
        if "made_of" in step:
            self.check_made_of(step, where)

    def do(self, step: dict[str, Any]) -> list[docpriority.Decision]:
        store, customer = self.store_of(step.get("lease_ms") or self.case.get("lease_ms") or 86_400_000), step["customer"]
        if step["do"] == "next":
            return [store.next(customer)] if step["n"] == 1 else store.next_n(customer, step["n"])
        if step["do"] == "submit":
            return store.submit_n(customer, step["documents"])
        if step["do"] == "peek":
            return [store.peek(customer)]
        if step["do"] == "reset":
            store.reset(customer)
            return []
        self.assertEqual(step["do"], "done")
        # A case says what documents cost; a store learns it from many of them.
        getattr(store, "store", store)._calls._mean.relative = lambda took, documents: step.get("cost", 0)
        store.done_n(customer, step["documents"])
        return []

    def store_of(self, lease: int) -> Any:
        if lease not in self.stores:
            fields = self.case["policy"]
            interval = timedelta(milliseconds=stretched(fields["reset_interval_ms"]))
            policy = Policy(fields["thresholds"], interval, ResetMode(fields["reset_mode"]))
            options = {"prefix": self.prefix, "timeout": LONG, "policy": policy, "lease": timedelta(milliseconds=lease)}
            self.stores[lease] = self.open(**options)
        return self.stores[lease]

    def shown(self, decision: docpriority.Decision) -> dict[str, int]:
        pending = {"pending": decision.pending} if "lease_ms" in self.case else {}
        reset_in = decision.reset_in // timedelta(milliseconds=STRETCH)
        return {"level": decision.level, "count": decision.count, **pending, "reset_in_ms": reset_in}

    def check_made_of(self, step: dict[str, Any], where: str) -> None:
        """What the case has taken makes a usage smaller and a lease longer."""
        store = self.store_of(step.get("lease_ms") or self.case.get("lease_ms") or 86_400_000)
        reply = self.server.eval(store.script("peek", step["customer"]), 3, *self.keys(step["customer"]))
        usage, ordinary, cost, lease = reply[4:8]
        want, took = step["made_of"], (time.monotonic() - self.began) * 1000 + 1
        self.assertEqual((ordinary, cost), (want["ordinary"], want["cost"]), where)
        self.assertTrue(0 <= want["usage"] - usage <= 1 + want["usage"] * took / 86_400_000, (where, usage))
        self.assertTrue(0 <= lease - want["lease_ms"] <= 20 * took, (where, lease))

    def keys(self, customer: str) -> list[bytes]:
        return [self.key(customer, end) for end in ("count", "pending", "usage")]

    def key(self, customer: str, end: str) -> bytes:
        return key_of(self.prefix.encode(), customer.encode(), end)


ERRORS = {
    "not_counted": docpriority.NotCounted,
    "outcome_unknown": docpriority.OutcomeUnknown,
    "corrupt": docpriority.CorruptCount,
}


class Errors(StoreCase):
    """errors.json and lost.json, by a server that answers what they say."""

    def test_answers_have_the_classes_of_the_vectors(self) -> None:
        for vector in json.loads((VECTORS / "errors.json").read_text())["answers"]:
            if "then" not in vector:
                with self.subTest(vector["answer"]):
                    peeked = "not_counted" if vector["class"] == "outcome_unknown" else vector["class"]
                    self.check("next", [vector["answer"]], vector["class"], 1)
                    self.check("peek", [vector["answer"]], peeked, 1)

    def test_what_is_tried_again_is_that_of_the_vectors(self) -> None:
        for vector in json.loads((VECTORS / "errors.json").read_text())["answers"]:
            if "then" in vector:
                with self.subTest(vector["answer"]):
                    self.check("next", [vector["answer"], "answered"], "answered", 2)

    def test_replies_that_are_none_are_of_unknown_outcome(self) -> None:
        for vector in json.loads((VECTORS / "errors.json").read_text())["replies"]:
            with self.subTest(vector["why"]):
                self.check("next", [vector["reply"]], "outcome_unknown", 1)

    def test_lost_answers_end_as_the_vectors_say(self) -> None:
        for vector in json.loads((VECTORS / "lost.json").read_text())["cases"]:
            with self.subTest(vector["name"]):
                self.check(vector["do"], vector["tries"], vector["class"], vector.get("sent"))

    def check(self, do: str, tries: list[str], ends: str, sent: Optional[int]) -> None:
        server = self.scripted(*tries)
        server.reply = {
            "next": b"*2\r\n:1\r\n:0\r\n",
            "submit": b"*4\r\n:1\r\n:0\r\n:1\r\n:1500000\r\n",
            "done": b"*1\r\n:1\r\n",
            "peek": b"*8\r\n:1\r\n:0\r\n:1\r\n:1500000\r\n:100\r\n:1\r\n:1000\r\n:86400000\r\n",
            "reset": b"*1\r\n:0\r\n",
        }[do]
        # Where it is not said how often it is sent, that is until the time is over.
        store = self.open(server.url, timeout=2 if sent is None and ends != "answered" else LONG)
        arguments = ["acme", "document"] if do in ("submit", "done") else ["acme"]
        if ends == "answered":
            getattr(store, do)(*arguments)
        else:
            with self.assertRaises(docpriority.PriorityError) as raised:
                getattr(store, do)(*arguments)
            self.assertIs(type(raised.exception), ERRORS[ends], raised.exception)
        if sent is not None:
            self.assertEqual(len(server.sent), sent, server.sent)
        store.close()
        server.close()


both_kinds(globals())

if __name__ == "__main__":
    unittest.main()
