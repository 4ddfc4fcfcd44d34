"""Reports and rules, by the vectors that programs in all languages share."""

import base64
import json
import unittest
from datetime import timedelta
from typing import Any

import docpriority
from docpriority import Decision, Ended, Policy, ResetMode
from docpriority._calls import Calls
from docpriority._report import Told, Window, bucket_of, fitted
from docpriority._rules import Follower

from .support import VECTORS


def vectors(file: str) -> Any:
    return json.loads((VECTORS / file).read_text())


class Reports(unittest.TestCase):
    def test_waits_are_in_the_buckets_of_the_vectors(self) -> None:
        for milliseconds, bucket in vectors("reports.json")["buckets"]:
            self.assertEqual(bucket_of(timedelta(milliseconds=milliseconds)), bucket, milliseconds)

    def test_reports_are_those_of_the_vectors(self) -> None:
        for case in vectors("reports.json")["writes"]:
            told, window = Told(), Window(0)
            for step in case["steps"]:
                now = step["at_ms"] / 1000
                tell(told, step)
                window.count(told, now)
                if step["do"] == "report":
                    got = json.loads(fitted(window.fields(now)))
                    with self.subTest(case["name"], at=step["at_ms"]):
                        self.assertEqual({name: value for name, value in got.items() if value not in ({}, [])}, step["report"])


ERRORS = {
    "invalid": ValueError(), "not_counted": docpriority.NotCountedError(), "outcome_unknown": docpriority.OutcomeUnknownError(),
    "corrupt_count": docpriority.CorruptCountError(), "error": docpriority.PriorityError(),
}


def tell(told: Told, step: dict[str, Any]) -> None:
    """Tells what the caller of a step was told."""
    customer = step.get("customer") or base64.b64decode(step.get("customer_base64", ""))
    kind = {"ruled": 1 if "overridden" in step else 0, "degraded": "fallback" in step}
    if step["do"] == "next":
        told.decided("count", customer, [Decision(level, step["count"], **kind) for level in step["levels"]])
    elif step["do"] == "submit":
        told.decided("load", customer, [Decision(level, load=step["load"], **kind) for level in step["levels"]])
    elif step["do"] == "done":
        told.ended([Ended("1", timedelta(milliseconds=sojourn), level) for sojourn, level in step["ended"]])
    elif step["do"] == "error":
        told.failed(ERRORS[step["class"]], step["documents"])


class Rules(unittest.TestCase):
    def test_the_rules_of_the_vectors_are_followed(self) -> None:
        for case in vectors("rules.json")["cases"]:
            process = Process(case["own"])
            for number, step in enumerate(case["steps"], 1):
                process.reads(step.get("version_key", ""), step.get("rules_key", ""))
                with self.subTest(case["name"], step=number):
                    self.assertEqual((process.version, process.error), (step["version"], step.get("error", "")), process.why)
                    for tier, policy in step["policies"].items():
                        self.assertEqual(process.policy_of(tier), policy)

    def test_what_the_vectors_refuse_leaves_the_rules_before_in_force(self) -> None:
        refused = vectors("rules.json")["refused"]
        item = '{"version":%d,"at":%d,"rules":%s}'
        for version, rules in [
            *(("2 2 7", item % (2, 2, rules)) for rules in refused["rules"]),
            *(("2 2 7", text) for text in refused["rules_key"]),
            *((text, item % (2, 2, "{}")) for text in refused["version_keys"]),
        ]:
            with self.subTest(version=version, rules=rules):
                process = Process({})
                process.reads("1 1 7", item % (1, 1, '{"thresholds":[-1]}'))
                process.reads(version, rules)
                self.assertEqual((process.version, process.error, process.policy_of("none")["thresholds"]), (1, "refused", [-1]), process.why)
                process.reads("3 3 7", item % (3, 3, '{"thresholds":[-3]}'))
                self.assertEqual((process.version, process.error, process.policy_of("none")["thresholds"]), (3, "", [-3]), process.why)


MODES = {ResetMode.SINCE_LAST_UPDATE: "last-update", ResetMode.SINCE_LAST_RESET: "last-reset"}


class Process:
    """A process with policies of its own, whose customers are named as their tiers."""

    def __init__(self, own: dict[str, Any]) -> None:
        tiers = {name: Policy(**policy) for name, policy in own.pop("tiers", {}).items()}
        self._calls = Calls("priority", Policy(**own), tiers, lambda customer: customer, timedelta(days=1), True)
        self._follower = Follower(self._calls)

    def reads(self, version: str, rules: str) -> None:
        self._follower.call(0).read([version.encode(), rules.encode() or None, 7])

    @property
    def version(self) -> int:
        return self._follower.version

    @property
    def why(self) -> str:
        return self._follower.error

    @property
    def error(self) -> str:
        for begin, name in (("Redis lost data", "lost"), ("a later version", "newer")):
            if self.why.startswith(begin):
                return name
        return "refused" if self.why else ""

    def policy_of(self, tier: str) -> dict[str, Any]:
        policy = self._calls.policy_of(tier)
        return {
            "thresholds": list(policy.thresholds), "reset_interval_ms": policy.reset_interval // timedelta(milliseconds=1),
            "reset_mode": MODES[policy.reset_mode], "loads": list(policy.loads), "turns": policy.turns,
        }
