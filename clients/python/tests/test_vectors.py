"""The vectors that clients/conformance cannot ask a driver for."""

import base64
import json
import re
import unittest
from datetime import timedelta
from typing import Any, Optional

import docpriority
from docpriority import Bounds, Decision, Ended, Policy, ResetMode
from docpriority._calls import Calls
from docpriority._following import Follower
from docpriority._memory import Memory
from docpriority._report import Window, bucket_of, fitted

from .support import VECTORS

DAY = 86_400_000
OVERRIDE = re.compile("([<>]?=)([1-9][0-9]{0,2})(?: .*)?")
STATE = (
    "level", "next_level", "count", "reset_in_ms", "load", "recent", "cost", "pending", "pending_flood", "oldest_ms", "latency_ms", "lease_ms",
)  # fmt: skip


def vectors(file: str) -> Any:
    return json.loads((VECTORS / file).read_text())


def policy_of(fields: dict[str, Any]) -> Policy:
    given = {**fields, "reset_interval": timedelta(milliseconds=fields["reset_interval_ms"]), "reset_mode": ResetMode(fields["reset_mode"])}
    del given["reset_interval_ms"]
    return Policy(**given)


class Case:
    """A memory in the virtual time of a case."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.now = 0
        self.policy = policy_of(case["policy"])
        self.memory = Memory(self.policy.last, case.get("lease_ms", DAY), lambda: self.now, case.get("accounts", False))

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
            _, latest, reset_in, *overridden = self.memory.next(customer, self.policy, n)
            bounds = Bounds(*overridden[1:3]) if overridden else Bounds(1, 255)
            decided = [(count, self.policy.level(count)) for count in range(latest + n - 1, latest - 1, -1)]
            return [levels(level, bounds.level(level), {"count": count, "reset_in_ms": reset_in}) for count, level in decided]
        if step["do"] == "submit":
            costs, delays = (step.get(name) or [0] * len(documents) for name in ("costs", "delays"))
            reply = self.memory.submit(customer, self.policy, documents, costs, delays)
            return [levels(reply[i + 3], reply[i], {"load": reply[i + 1], "pending": reply[i + 2]}) for i in range(0, 4 * len(documents), 4)]
        if step["do"] == "done":
            reply = self.memory.done(customer, documents, step.get("cost", 0))
            return [{"level": level, "latency_ms": latency} for latency, level in zip(reply[::2], reply[1::2])]
        if step["do"] == "peek":
            rule, *reply = self.memory.peek(customer, self.policy)
            state = {"rule": ("unknown", "by_count", "by_load")[rule], **dict(zip(STATE, reply))}
            state.update({"rule_level": reply[12]} if reply[12] != reply[1] else {})
            state.update(zip(("earliest", "latest"), reply[13:15]) if reply[14] else ())
            rare = zip(("override_ends_in_ms", "scheduled", "account_load", "account_flood"), reply[15:])
            return {**state, **{name: value for name, value in rare if value > 0}}
        self.memory.reset(customer)
        return None


def levels(rule_level: int, level: int, fields: dict[str, Any]) -> dict[str, Any]:
    return {**fields, "level": level, **({"rule_level": rule_level} if rule_level != level else {})}


class InMemory(unittest.TestCase):
    """Against Redis, the conformance checks run them."""

    def test_decisions(self) -> None:
        for file in ("rule.json", "submit.json", "due.json", "accounts.json", "edges.json"):
            ran = 0
            for case in vectors(file)["cases"]:
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
                if step["do"] == "history":
                    fields, last = window.history(step.get("ending", False))
                    window.added(last)
                    with self.subTest(case["name"], at=step["at_ms"]):
                        self.assertEqual(fields, step.get("history", {}))
                if step["do"] == "report":
                    got = json.loads(fitted(window.fields()))
                    with self.subTest(case["name"], at=step["at_ms"]):
                        self.assertEqual({name: value for name, value in got.items() if value not in ({}, [])}, step["report"])


def note(window: Window, step: dict[str, Any]) -> None:
    """Notes what the caller of a step got."""
    customer = step["customer"].encode() if "customer" in step else base64.b64decode(step.get("customer_base64", ""))
    if step["do"] in ("next", "submit"):
        fields = {"count": step.get("count", 0), "load": step.get("load", 0), "pending": step.get("pending", 0), "degraded": "fallback" in step}
        decisions = [Decision(level, level + 1 if "overridden" in step else level, **fields) for level in step["levels"]]
        window.decided({"next": "count", "submit": "load"}[step["do"]], customer, decisions)
    elif step["do"] == "done":
        window.ended([Ended("1", timedelta(milliseconds=latency), level) for latency, level in step["ended"]])
    elif step["do"] == "error":
        window.failed(ERRORS[step["class"]], step["documents"])


class Following(unittest.TestCase):
    def test_policies_are_followed(self) -> None:
        for case in vectors("following.json")["cases"]:
            process = Process(case["own"])
            for number, step in enumerate(case["steps"], 1):
                with self.subTest(case["name"], step=number):
                    self.assertEqual(process.reads(step.get("policies_key", "")), (step["version"], step.get("code")))
                    self.assertEqual(process.calls.digest(), step["digest"])
                    for tier, policy in step["policies"].items():
                        self.assertEqual(process.policy_of(tier), policy)

    def test_what_is_refused_leaves_the_policies_before_in_force(self) -> None:
        refused = vectors("following.json")["refused"]
        item = '{"version":%d,"changed":1,"policies":%s}'
        texts = [(text, "corrupt") for text in refused["policies_key"]] + [(item % (2, policies), "invalid") for policies in refused["policies"]]
        for text, code in texts:
            with self.subTest(text):
                process = Process({})
                for read, want in ((item % (1, '{"thresholds":[-1]}'), (1, None)), (text, (1, code)), (item % (3, '{"thresholds":[-3]}'), (3, None))):
                    self.assertEqual((process.reads(read), process.policy_of("none")["thresholds"]), (want, [-want[0]]))


class Process:
    """A process whose customers are named as their tiers."""

    def __init__(self, own: dict[str, Any]) -> None:
        tiers = {name: Policy(**policy) for name, policy in own.pop("tiers", {}).items()}
        self.calls = Calls("priority", Policy(**own), tiers, lambda customer: customer, timedelta(days=1), True)
        self._follower = Follower(self.calls)

    def reads(self, policies: str) -> tuple[int, Optional[str]]:
        """Returns the version that the process follows then, and the code for why it is not the newest."""
        call, now, text = self._follower.call(), 1_764_115_200_000, policies.encode()
        head = call.arguments[0]
        call.read([now, 0] if head and text.startswith(head) else [now, 0, text], False)
        following = self._follower.following
        return following["version"], following.get("code")

    def policy_of(self, tier: str) -> dict[str, Any]:
        policy = self.calls.policies.policy_of(tier)
        return {
            "thresholds": list(policy.thresholds), "reset_interval_ms": policy.reset_interval // timedelta(milliseconds=1),
            "reset_mode": policy.reset_mode.value.replace("since_", "").replace("_", "-"), "loads": list(policy.loads), "turns": policy.turns,
        }  # fmt: skip
