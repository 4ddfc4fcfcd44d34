"""What asks no server: options and calls that cannot be, what is answered, and where a cluster's calls go."""

import itertools
import unittest
from datetime import timedelta
from fractions import Fraction
from typing import Any

import redis
import redis.asyncio

import docpriority
from docpriority import Policy
from docpriority._calls import Calls
from docpriority._classify import Refused, Unanswered
from docpriority._course import Deadline, Nodes, Pause, course


def store(**options: Any) -> docpriority.Store:
    return docpriority.Store(redis.Redis(port=1), **options)


class Wrong(unittest.TestCase):
    def test_names(self) -> None:
        own = store()
        for wrong in (None, 5, bytearray(b"acme"), ["acme"]):
            self.assertRaises(TypeError, own.keys, wrong)
            self.assertRaises(TypeError, own.done, "acme", wrong)
        with self.assertRaisesRegex(ValueError, r"^a document has a lone surrogate: 'in\\udc80'$"):
            own.submit("acme", "in\udc80")

    def test_options(self) -> None:
        nine, three = Policy(), Policy((-2, -4))
        values: list[dict[str, Any]] = [
            {"prefix": "a{b"}, {"prefix": ""}, {"timeout": 0}, {"timeout": float("nan")}, {"timeout": float("inf")}, {"timeout": 250},
            {"timeout": timedelta(days=1, milliseconds=1)}, {"timeout": 10**400}, {"lease": timedelta()}, {"lease": timedelta(days=2)},
            {"lease": timedelta(microseconds=1500)}, {"tiers": {"few": three}}, {"policy": three, "tiers": {"many": nine}, "tier_of": str},
            {"name": "x" * 101, "join": True}, {"name": "w1"},
        ]  # fmt: skip
        types: list[dict[str, Any]] = [
            {"prefix": b"a"}, {"timeout": "1"}, {"timeout": True}, {"lease": 5}, {"policy": {}}, {"tiers": {"few": (-2,)}, "tier_of": str},
            {"tiers": {"few": three}, "tier_of": 5}, {"join": 1}, {"fallback": "yes"}, {"overrides": None}, {"accounts": 1}, {"name": 4},
        ]  # fmt: skip
        for kind, options in ((ValueError, values), (TypeError, types)):
            for wrong in options:
                with self.subTest(str(wrong)):
                    self.assertRaises(kind, store, **wrong)

    def test_clients(self) -> None:
        threads, asynchronous = redis.Redis(port=1), redis.asyncio.Redis(port=1)
        for wrong in (None, "redis://", redis.ConnectionPool(port=1), threads.pipeline(), asynchronous, redis.Redis):
            self.assertRaises(TypeError, docpriority.Store, wrong)
        for wrong in (None, redis.asyncio.ConnectionPool(port=1), asynchronous.pipeline(), threads):
            self.assertRaises(TypeError, docpriority.AsyncStore, wrong)

    def test_calls(self) -> None:
        own = store()
        for n in (1.0, "1", True):
            self.assertRaises(TypeError, own.next_n, "acme", n)
        for documents in ([], ["a"] * 101, map(str, itertools.count())):
            self.assertRaises(ValueError, own.submit_n, "acme", documents)
        self.assertRaises(TypeError, own.submit_n, "acme", "abc")
        self.assertRaises(TypeError, own.submit, "acme", "a", 12)  # without its name
        self.assertRaises(TypeError, own.done, "acme", "a", 0.5)

    def test_costs_and_delays(self) -> None:
        own = store(timeout=0.01)
        for cost in (float("nan"), 10**400):
            self.assertRaises(ValueError, own.submit_n, "acme", ["a", docpriority.Document("b", cost)])
        for wrong in ("12", None, True, timedelta(seconds=1)):
            self.assertRaises(TypeError, own.submit_n, "acme", [docpriority.Document("a", wrong)])
        for kind, wrong in ((TypeError, "12"), (TypeError, True), (ValueError, float("nan")), (ValueError, timedelta(days=366))):
            self.assertRaises(kind, own.submit, "acme", "a", delay=wrong)
        self.assertRaises(docpriority.NotCountedError, own.submit_n, "acme", [docpriority.Document("a", Fraction(1, 3))])
        self.assertEqual(own._calls._costs._history, ({}, [], 0.0))


class Answers(unittest.TestCase):
    def test_each_customer_has_the_policy_of_their_tier(self) -> None:
        own = store(tiers={"few": Policy((-2,))}, tier_of={"acme": "few", "other": "unknown"}.get)
        self.assertEqual(own.last, 9)
        self.assertNotIn("level = 3", own.script("next", "acme"))
        self.assertIn("level = 9", own.script("next", "other"))


class Clusters(unittest.TestCase):
    """Two nodes, of which the client believes that the first has all keys."""

    def setUp(self) -> None:
        self.first, self.second = ("127.0.0.1", 1), ("127.0.0.1", 2)
        self.nodes = Nodes(lambda key: self.first, [self.first, self.second])
        self.call = Calls("priority", Policy(), None, None, timedelta(days=1), False).next_n("acme", 1)
        self.nodes.scripts = {(node, self.call.script.sha1): None for node in (self.first, self.second)}

    def asked(self, *outcomes: Any) -> list[Any]:
        """Makes a call whose tries come to this, and returns the addresses that were asked."""
        steps, asked, left = course(self.call, self.nodes, Deadline(60)), [], list(outcomes)
        try:
            step = next(steps)
            while True:
                if isinstance(step, Pause):
                    step = next(steps)
                asked.append((step.address, len(step.commands)))
                step = steps.send(left.pop(0))
        except (IndexError, StopIteration, docpriority.PriorityError):
            return asked

    def test_a_node_that_failed_is_left_until_it_answers(self) -> None:
        for failure in (Unanswered("lost"), Refused("CLUSTERDOWN The cluster is down"), Refused("READONLY You can't write")):
            self.asked(failure)
            self.assertEqual({self.asked()[0][0] for _ in range(20)}, {self.second})
            self.asked(Refused("MOVED 5 127.0.0.1:1"), [1, 0])
            self.assertEqual(self.asked(), [(self.first, 1)])
