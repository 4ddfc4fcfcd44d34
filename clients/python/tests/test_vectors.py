"""The vectors that clients/conformance cannot ask a driver for."""

import base64
import json
import re
import unittest
from datetime import timedelta
from typing import Any

import docpriority
from docpriority import Decision, Ended, Policy, ResetMode
from docpriority._calls import Calls
from docpriority._memory import Memory, _Customer
from docpriority._report import Window, bucket_of, fitted
from docpriority._rules import Follower

from .support import VECTORS

DAY = 86_400_000
OVERRIDE = re.compile("([<>]?=)([1-9][0-9]{0,2})(?: .*)?")
STATE = (
    "level", "next_level", "count", "reset_in_ms", "load", "recent", "cost", "pending", "pending_last", "oldest_ms", "latency_ms", "lease_ms",
)  # fmt: skip


def vectors(file: str) -> Any:
    return json.loads((VECTORS / file).read_text())


def policy_of(fields: dict[str, Any]) -> Policy:
    given = {**fields, "reset_interval": timedelta(milliseconds=fields["reset_interval_ms"]), "reset_mode": ResetMode(fields["reset_mode"])}
    del given["reset_interval_ms"]
    return Policy(**given)


class Policies(unittest.TestCase):
    def test_levels(self) -> None:
        for vector in vectors("policies.json")["policies"]:
            policy = policy_of(vector["policy"])
            by_load = vector["levels_by_load"] or []
            with self.subTest(vector["name"]):
                self.assertEqual((policy.loads, policy.turns, policy.last), (tuple(vector["loads"]), vector["turns"], vector["last"]))
                self.assertEqual([[count, policy.level(count)] for count, _ in vector["levels"]], vector["levels"])
                self.assertEqual([[load, policy.level_of_load(load / 1e6)] for load, _ in by_load], by_load)


class Case:
    """A memory in the virtual time of a case."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.now = 0
        self.policy = policy_of(case["policy"])
        self.memory = Memory(self.policy.last, case.get("lease_ms", DAY), lambda: self.now)

    def do(self, step: dict[str, Any]) -> Any:
        """Does a step, and returns what it came to as the vectors say it."""
        self.now = step["at_ms"]
        customer, n = step["customer"].encode(), step.get("n", 1)
        documents = [document.encode() for document in step.get("documents", ())]
        if step["do"] == "set":
            how, level = OVERRIDE.fullmatch(step["value"]).groups()  # type: ignore[union-attr]
            ends_in = step.get("ttl_ms", float("inf"))
            return self.memory.set_override(customer, 1 if how == "<=" else int(level), 255 if how == ">=" else int(level), ends_in)
        if step["do"] == "next":
            _, last, reset_in, *ruling = self.memory.next(customer, self.policy, n)
            plain = [{"level": self.policy.level(count), "count": count, "reset_in_ms": reset_in} for count in range(last + n - 1, last - 1, -1)]
            if ruling:
                plain = [levels(of["level"], min(max(of["level"], ruling[1]), ruling[2]), of) for of in plain]
            return plain
        if step["do"] == "submit":
            reply = self.memory.submit(customer, self.policy, documents, step.get("costs") or [0] * len(documents))
            decided = zip(*(reply[i : 4 * len(documents) : 4] for i in range(4)))
            return [levels(rule_level, level, {"load": load, "pending": pending}) for level, load, pending, rule_level in decided]
        if step["do"] == "done":
            reply = self.memory.done(customer, documents, step.get("cost", 0))
            return [{"level": level, "latency_ms": latency} for latency, level in zip(reply[::2], reply[1::2])]
        if step["do"] == "peek":
            rule, *reply = self.memory.peek(customer, self.policy)
            state = {"rule": ("unknown", "by_count", "by_load")[rule], **dict(zip(STATE, reply))}
            state.update({"rule_level": reply[12]} if reply[12] != reply[1] else {})
            state.update(zip(("earliest", "latest"), reply[13:15]) if reply[14] else ())
            return {**state, "override_ends_in_ms": reply[15]} if reply[15] > 0 else state
        self.memory.reset(customer)
        return None


def levels(rule_level: int, level: int, fields: dict[str, Any]) -> dict[str, Any]:
    return {**fields, "level": level, **({"rule_level": rule_level} if rule_level != level else {})}


class InMemory(unittest.TestCase):
    """Against Redis, the conformance checks run them."""

    def test_arithmetic(self) -> None:
        file, known = vectors("load.json"), _Customer()
        for known.fades_at, recent in file["recent"]:
            self.assertEqual(known.recent(0), recent)
        for recent, left in file["left"]:
            known.submitted(recent, 0)
            self.assertEqual(known.fades_at, left)
        for beyond, turns, turn in file["turns"]:
            self.assertEqual(Policy(loads=(), turns=turns)._level_of(0, beyond), 1 + turn)

    def test_decisions(self) -> None:
        for file in ("rule.json", "submit.json"):
            for case in vectors(file)["cases"]:
                self.run_case(case)

    def test_decisions_with_overrides(self) -> None:
        ran = 0
        for case in vectors("edges.json")["cases"]:
            sets = [step for step in case["steps"] if step["do"] == "set"]
            if all(step.get("key") == "override" and OVERRIDE.fullmatch(step["value"]) for step in sets):
                if not any("lease_ms" in step or "error" in step for step in case["steps"]):
                    self.run_case(case)
                    ran += 1
        self.assertGreater(ran, 2)

    def run_case(self, case: dict[str, Any]) -> None:
        memory = Case(case)
        for number, step in enumerate(case["steps"]):
            with self.subTest(case["name"], step=number):
                self.assertEqual(memory.do(step), step.get("want", step.get("state")), step)


ERRORS = {
    "invalid": ValueError(), "not_counted": docpriority.NotCountedError(), "outcome_unknown": docpriority.OutcomeUnknownError(),
    "corrupt": docpriority.CorruptError(), "error": docpriority.PriorityError(),
}  # fmt: skip


class Reports(unittest.TestCase):
    def test_buckets(self) -> None:
        for milliseconds, bucket in vectors("reports.json")["buckets"]:
            self.assertEqual(bucket_of(timedelta(milliseconds=milliseconds)), bucket, milliseconds)

    def test_reports(self) -> None:
        for case in vectors("reports.json")["writes"]:
            now = 0
            window = Window(lambda: now)
            for step in case["steps"]:
                now = step["at_ms"]
                note(window, step)
                if step["do"] == "report":
                    got = json.loads(fitted(window.fields()))
                    with self.subTest(case["name"], at=step["at_ms"]):
                        self.assertEqual({name: value for name, value in got.items() if value not in ({}, [])}, step["report"])


def note(window: Window, step: dict[str, Any]) -> None:
    """Notes what the caller of a step got."""
    customer = step["customer"].encode() if "customer" in step else base64.b64decode(step.get("customer_base64", ""))
    if step["do"] in ("next", "submit"):
        of = {"count": step.get("count", 0), "load": step.get("load", 0), "pending": step.get("pending", 0), "degraded": "fallback" in step}
        decisions = [Decision(level, level + 1 if "overridden" in step else level, **of) for level in step["levels"]]
        window.decided({"next": "count", "submit": "load"}[step["do"]], customer, decisions)
    elif step["do"] == "done":
        window.ended([Ended("1", timedelta(milliseconds=latency), level) for latency, level in step["ended"]])
    elif step["do"] == "error":
        window.failed(ERRORS[step["class"]], step["documents"])


class Rules(unittest.TestCase):
    def test_rules_are_followed(self) -> None:
        for case in vectors("rules.json")["cases"]:
            process = Process(case["own"])
            for number, step in enumerate(case["steps"], 1):
                process.reads(step.get("rules_key", ""))
                with self.subTest(case["name"], step=number):
                    self.assertEqual(process.status, (step["version"], step.get("error", "")), process.why)
                    for tier, policy in step["policies"].items():
                        self.assertEqual(process.policy_of(tier), policy)

    def test_what_is_refused_leaves_the_rules_before_in_force(self) -> None:
        refused = vectors("rules.json")["refused"]
        item = '{"version":%d,"changed":1,"rules":%s}'
        for text in [*(item % (2, rules) for rules in refused["rules"]), *refused["rules_key"]]:
            with self.subTest(text):
                process = Process({})
                for read, want in ((item % (1, '{"thresholds":[-1]}'), (1, "")), (text, (1, "refused")), (item % (3, '{"thresholds":[-3]}'), (3, ""))):
                    process.reads(read)
                    self.assertEqual((process.status, process.policy_of("none")["thresholds"]), (want, [-want[0]]), process.why)


class Process:
    """A process whose customers are named as their tiers."""

    def __init__(self, own: dict[str, Any]) -> None:
        tiers = {name: Policy(**policy) for name, policy in own.pop("tiers", {}).items()}
        self._calls = Calls("priority", Policy(**own), tiers, lambda customer: customer, timedelta(days=1), True)
        self._follower = Follower(self._calls)

    def reads(self, rules: str) -> None:
        self._follower.call().read([7, rules.encode()], False)

    @property
    def why(self) -> str:
        return str(self._follower.status["error"])

    @property
    def status(self) -> tuple[int, str]:
        kinds = {"Redis lost data": "lost", "a later version": "newer"}
        kind = next((kind for begin, kind in kinds.items() if self.why.startswith(begin)), "refused" if self.why else "")
        return self._follower.status["version"], kind

    def policy_of(self, tier: str) -> dict[str, Any]:
        policy = self._calls.in_force.of(tier)
        return {
            "thresholds": list(policy.thresholds), "reset_interval_ms": policy.reset_interval // timedelta(milliseconds=1),
            "reset_mode": policy.reset_mode.value.replace("since_", "").replace("_", "-"), "loads": list(policy.loads), "turns": policy.turns,
        }  # fmt: skip


if __name__ == "__main__":
    unittest.main()
