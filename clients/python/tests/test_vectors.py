"""Reports and rules, by the vectors that programs in all languages share."""

import base64
import json
import unittest
from datetime import timedelta
from typing import Any

import docpriority
from docpriority import Decision, Ended
from docpriority._report import Told, Window, bucket_of, fitted

from .support import VECTORS


def vectors(file: str) -> Any:
    return json.loads((VECTORS / file).read_text())


class Reports(unittest.TestCase):
    def test_waits_are_in_the_buckets_of_the_vectors(self) -> None:
        for milliseconds, bucket in vectors("reports.json")["buckets"]:
            self.assertEqual(bucket_of(timedelta(milliseconds=milliseconds)), bucket, milliseconds)

    def test_reports_are_those_of_the_vectors(self) -> None:
        for case in vectors("reports.json")["writes"]:
            if any("fallback" in step for step in case["steps"]):
                continue  # this client has none
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
    "invalid": ValueError(), "not_counted": docpriority.NotCounted(), "outcome_unknown": docpriority.OutcomeUnknown(),
    "corrupt_count": docpriority.CorruptCount(), "error": docpriority.PriorityError(),
}


def tell(told: Told, step: dict[str, Any]) -> None:
    """Tells what the caller of a step was told."""
    customer = step.get("customer") or base64.b64decode(step.get("customer_base64", ""))
    ruled = 1 if "overridden" in step else 0
    if step["do"] == "next":
        told.decided("count", customer, [Decision(level, step["count"], ruled=ruled) for level in step["levels"]])
    elif step["do"] == "submit":
        told.decided("load", customer, [Decision(level, load=step["load"], ruled=ruled) for level in step["levels"]])
    elif step["do"] == "done":
        told.ended([Ended("1", timedelta(milliseconds=sojourn), level) for sojourn, level in step["ended"]])
    elif step["do"] == "error":
        told.failed(ERRORS[step["class"]], step["documents"])
