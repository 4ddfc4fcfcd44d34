"""What asks no server: keys, policies, scripts, costs, decisions, wrong calls."""

import hashlib
import itertools
import json
import pickle
import time
import unittest
from dataclasses import FrozenInstanceError
from datetime import timedelta
from fractions import Fraction
from typing import Any
from unittest import mock

import redis
import redis.asyncio
import redis.sentinel

import docpriority
from docpriority import Policy, ResetMode
from docpriority._calls import Calls
from docpriority._cost import Mean, each
from docpriority._course import Course, Unanswered
from docpriority._nodes import ClusterNodes, OneServer
from docpriority._protocol import ErrorReply, ProtocolError, ReplyReader
from docpriority._shelf import _LONGEST_IDLE, Shelf

from .support import VECTORS


def vectors(file: str) -> Any:
    return json.loads((VECTORS / file).read_text())


def policy_of(fields: dict[str, Any]) -> Policy:
    interval = timedelta(milliseconds=fields["reset_interval_ms"])
    by_load = {name: fields[name] for name in ("loads", "turns") if name in fields}
    return Policy(fields["thresholds"], interval, ResetMode(fields["reset_mode"]), **by_load)


def store(**options: Any) -> docpriority.Store:
    return docpriority.Store(redis.Redis(port=1), **options)


class Keys(unittest.TestCase):
    def test_keys_are_those_of_the_vectors(self) -> None:
        for key in vectors("keys.json")["keys"]:
            with self.subTest(key["shown"]):
                own, customer = store(prefix=key["prefix"]), bytes.fromhex(key["customer_hex"])
                keys = [own.key(customer), own.pending_key(customer), own.usage_key(customer), own.override_key(customer)]
                ends = ("count", "pending", "usage", "override")
                self.assertEqual(keys, [bytes.fromhex(key[f"{end}_key_hex"]) for end in ends])

    def test_a_str_is_its_utf_8(self) -> None:
        self.assertEqual(store().key("größer}"), "priority:{größer%7D}:count".encode())

    def test_what_is_no_customer_and_no_document_is_refused(self) -> None:
        own = store()
        for wrong in ("", "x" * 513, b"x" * 513, "ü" * 257, "\udc80"):
            self.assertRaises(ValueError, own.key, wrong)
            self.assertRaises(ValueError, own.next, wrong)
            self.assertRaises(ValueError, own.submit, "acme", wrong)
        for wrong in (None, 5, bytearray(b"acme"), ["acme"]):
            self.assertRaises(TypeError, own.key, wrong)
            self.assertRaises(TypeError, own.done, "acme", wrong)
        self.assertEqual(len(own.key("x" * 512)), len("priority:{}:count") + 512)


class Options(unittest.TestCase):
    def test_what_cannot_be_is_refused_by_the_constructor(self) -> None:
        nine, three = Policy(), Policy((-2, -4))
        for wrong in (
            {"prefix": "a{b"},
            {"prefix": "}"},
            {"prefix": ""},
            {"timeout": 0},
            {"timeout": -1.0},
            {"timeout": float("nan")},
            {"timeout": float("inf")},
            {"timeout": 86_401},
            {"timeout": timedelta()},
            {"timeout": timedelta(days=1, milliseconds=1)},
            {"timeout": 10**400},
            {"lease": timedelta()},
            {"lease": timedelta(days=1, milliseconds=1)},
            {"lease": timedelta(microseconds=1500)},
            {"tiers": {"few": three}},
            {"policy": three, "tiers": {"many": nine}, "tier_of": str},
        ):
            with self.subTest(str(wrong)):
                self.assertRaises(ValueError, store, **wrong)
        for wrong in (
            {"prefix": b"a"},
            {"timeout": "1"},
            {"timeout": True},
            {"lease": 5},
            {"policy": {}},
            {"tiers": {"few": (-2,)}, "tier_of": str},
            {"tiers": {"few": three}, "tier_of": 5},
        ):
            with self.subTest(str(wrong)):
                self.assertRaises(TypeError, store, **wrong)

    def test_milliseconds_are_not_taken_for_seconds(self) -> None:
        with self.assertRaisesRegex(ValueError, r"write timedelta\(milliseconds=250\)"):
            store(timeout=250)
        for seconds, timeout in ((60, 60), (0.25, timedelta(milliseconds=250)), (250, timedelta(seconds=250))):
            self.assertEqual(store(timeout=timeout)._timeout, seconds)

    def test_only_clients_of_redis_py_are_taken_and_each_by_its_own_store(self) -> None:
        threads, asynchronous = redis.Redis(port=1), redis.asyncio.Redis(port=1)
        for wrong in (None, "redis://", redis.ConnectionPool(port=1), threads.pipeline(), asynchronous, redis.Redis):
            self.assertRaises(TypeError, docpriority.Store, wrong)
        for wrong in (None, redis.asyncio.ConnectionPool(port=1), asynchronous.pipeline(), threads):
            self.assertRaises(TypeError, docpriority.AsyncStore, wrong)

    def test_calls_that_cannot_be_are_refused(self) -> None:
        own = store()
        for n in (0, -1, 1_000_001):
            self.assertRaises(ValueError, own.next_n, "acme", n)
        for n in (1.0, "1", True):
            self.assertRaises(TypeError, own.next_n, "acme", n)
        self.assertRaises(ValueError, own.submit_n, "acme", [])
        self.assertRaises(ValueError, own.submit_n, "acme", ["a"] * 101)
        self.assertRaises(ValueError, own.done_n, "acme", ["a"] * 1001)
        self.assertRaises(ValueError, own.submit_n, "acme", map(str, itertools.count()))
        self.assertRaises(TypeError, own.submit_n, "acme", "abc")
        self.assertRaises(TypeError, own.submit_n, "acme", ["a"], 5)
        self.assertRaises(ValueError, own.submit_n, "acme", ["a", "b"], [1])
        self.assertRaises(ValueError, own.submit_n, "acme", ["a"], itertools.count())
        self.assertRaises(TypeError, own.done, "acme", "a", 0.5)
        self.assertRaises(ValueError, own.done, "acme", "a", timedelta(seconds=-1))

    def test_a_cost_that_cannot_be_is_refused_and_costs_nothing(self) -> None:
        own = store()
        for cost in (-1, -1e-9, float("nan"), float("inf"), 10**400):
            self.assertRaises(ValueError, own.submit, "acme", "a", cost)
            self.assertRaises(ValueError, own.submit_n, "acme", ["a", "b"], [1, cost])
        for wrong in ("12", None, True, timedelta(seconds=1)):
            self.assertRaises(TypeError, own.submit, "acme", "a", wrong)
            self.assertRaises(TypeError, own.submit_n, "acme", ["a"], [wrong])
        self.assertEqual(own._calls._told._seen_and_mean, (0, 0))
        self.assertRaises(docpriority.NotCountedError, own.submit, "acme", "a", Fraction(1, 3))

    def test_each_customer_has_the_policy_of_their_tier(self) -> None:
        tiers = {"few": Policy((-2,))}
        own = store(tiers=tiers, tier_of={"acme": "few", "other": "unknown"}.get)
        self.assertEqual(own.last, 9)
        self.assertIn("level = 2", own.script("next", "acme"))
        self.assertNotIn("level = 3", own.script("next", "acme"))
        for customer in ("other", "nobody"):
            self.assertIn("level = 9", own.script("next", customer))


class Policies(unittest.TestCase):
    def test_scripts_are_those_of_the_vectors(self) -> None:
        file = vectors("policies.json")
        for vector in file["policies"]:
            lease = timedelta(milliseconds=vector["lease_ms"])
            own = store(policy=policy_of(vector["policy"]), lease=lease)
            for name, sha1 in {**vector["sha1"], **file["always"]}.items():
                with self.subTest(vector["name"], script=name):
                    self.assertEqual(hashlib.sha1(own.script(name, "acme").encode()).hexdigest(), sha1)

    def test_levels_are_those_of_the_vectors(self) -> None:
        for vector in vectors("policies.json")["policies"]:
            policy = policy_of(vector["policy"])
            by_load = vector["levels_by_load"] or []
            with self.subTest(vector["name"]):
                self.assertEqual((policy.loads, policy.last), (tuple(vector["loads"]), vector["last"]))
                self.assertEqual([[count, policy.level(count)] for count, _ in vector["levels"]], vector["levels"])
                self.assertEqual([[load, policy.level_of_load(load / 1e6)] for load, _ in by_load], by_load)

    def test_policies_of_the_vectors_are_refused(self) -> None:
        for vector in vectors("policies.json")["refused"]:
            with self.subTest(vector["why"]), self.assertRaises(ValueError):
                store(policy=policy_of(vector["policy"]), lease=timedelta(milliseconds=vector["lease_ms"]))

    def test_the_last_level_is_that_of_both_rules_with_the_turns(self) -> None:
        for policy, last in ((Policy(turns=13), 22), (Policy((-2, -4, -6), loads=(2,), turns=1), 4), (Policy((-2,), loads=(2, 8)), 3)):
            self.assertEqual((policy.last, store(policy=policy).last), (last, last))
        with self.assertRaises(ValueError):
            store(tiers={"turns": Policy(turns=1)}, tier_of=str)

    def test_a_load_is_compared_in_millionths(self) -> None:
        policy = Policy(loads=(0.000001, 2.5, 1e9), turns=5)
        self.assertEqual([policy.level_of_load(load) for load in (0, 0.0000014, 0.0000016)], [1, 1, 2])
        self.assertEqual([policy.level_of_load(load) for load in (2.5, 2.5000004, 2.5000006)], [2, 2, 3])
        self.assertEqual([policy.level_of_load(load) for load in (1e9, 1e300, float("inf"))], [3, 3, 3])
        self.assertEqual([Policy().level_of_load(load) for load in (0, 2, 72, 32768, 32769)], [1, 1, 4, 8, 9])

    def test_loads_and_turns_of_another_kind_are_refused(self) -> None:
        self.assertRaises(ValueError, Policy, loads=(float("nan"),))
        for wrong in ({"loads": ("2",)}, {"loads": (True,)}, {"loads": 2}, {"turns": 1.0}, {"turns": True}):
            given: dict[str, Any] = wrong
            self.assertRaises(TypeError, Policy, **given)

    def test_what_a_store_answers_cannot_be_changed_and_can_be_pickled(self) -> None:
        state = docpriority.State(docpriority.Rule.BY_LOAD, 9, 9, load=72.5)
        for answer in (docpriority.Decision(1), docpriority.Ended("invoice-1", timedelta(), 1), state):
            with self.assertRaises(FrozenInstanceError):
                answer.level = 2  # type: ignore[misc]
            self.assertEqual(pickle.loads(pickle.dumps(answer)), answer)
        with self.assertRaises(FrozenInstanceError):
            Policy().thresholds = ()  # type: ignore[misc]
        self.assertEqual(pickle.loads(pickle.dumps(Policy(turns=3))), Policy(turns=3))


class Costs(unittest.TestCase):
    def test_costs_are_those_of_the_vectors(self) -> None:
        for case in vectors("mean.json")["cases"]:
            with self.subTest(case["name"]):
                told, took = Mean(), Mean()
                for step in case["steps"]:
                    if "costs" in step:
                        mean, costs, added = told, step["costs"], step["costs"]
                    else:
                        seconds = each(timedelta(milliseconds=step.get("took_ms", 0)), step["n"])
                        mean, costs, added = took, [seconds], [seconds] * step.get("ended", 0)
                    self.assertEqual([mean.relative(cost) for cost in costs], step["sent"])
                    for cost in added:
                        mean.add(cost)

    def test_a_cost_is_known_after_a_hundred(self) -> None:
        mean = Mean()
        for _ in range(99):
            mean.add(2)
        mean.add(0)  # not known
        self.assertEqual(mean.relative(2), 0)
        mean.add(2)
        for cost, want in ((0, 0), (1e-9, 1), (2, 1000), (3, 1500), (200, 100_000), (1e308, 100_000)):
            self.assertEqual(mean.relative(cost), want)

    def test_one_mistake_does_not_make_all_others_cheap(self) -> None:
        mean = Mean()
        for _ in range(1000):
            mean.add(1)
        mean.add(1e300)  # counts as 20
        self.assertEqual(mean.relative(1), 981)

    def test_the_longest_time_there_is_counts_as_a_day(self) -> None:
        self.assertEqual(each(timedelta.max, 2), 43_200)
        self.assertEqual(each(timedelta(seconds=3), 2), 1.5)


class Clusters(unittest.TestCase):
    """Two nodes, of which the client believes that the first has all keys."""

    def setUp(self) -> None:
        self.first, self.second = ("127.0.0.1", 1), ("127.0.0.1", 2)
        self.nodes = ClusterNodes([self.first, self.second], lambda key: self.first, lambda host, port: (host, port))
        self.calls = Calls("priority", Policy(), None, None, timedelta(days=1), True)

    def course(self) -> Course[Any]:
        return Course(self.calls.next("acme"), self.nodes, timeout=60)

    def begins_at(self) -> set[Any]:
        return {self.course().address for _ in range(20)}

    def test_a_node_that_failed_is_asked_when_another_names_it_until_it_answers(self) -> None:
        self.course().unanswered(Unanswered("no answer came"))
        with mock.patch("time.monotonic", return_value=time.monotonic() + 1000):
            self.assertEqual(self.begins_at(), {self.second})
            course = self.course()
            course.answered(ErrorReply("MOVED 5 127.0.0.1:1"))
            self.assertEqual((course.address, self.begins_at()), (self.first, {self.second}))
            course.answered([1, 0])
        self.assertEqual(self.begins_at(), {self.first})

    def test_a_node_that_answers_a_call_has_the_key(self) -> None:
        self.course().answered(ErrorReply("MOVED 5 127.0.0.1:1"))
        self.course().unanswered(Unanswered("no answer came"))
        self.course().answered([1, 0])  # the second one
        self.nodes.answered(self.first)
        self.assertEqual(self.begins_at(), {self.second})

    def test_a_node_that_is_only_asked_this_time_is_not_learned(self) -> None:
        course = self.course()
        course.answered(ErrorReply("ASK 5 127.0.0.1:2"))
        self.assertEqual((course.address, course.replies), (self.second, 2))
        course.answered([1, 0])
        self.assertEqual(self.begins_at(), {self.first})

    def test_a_node_that_serves_nobody_any_more_is_left(self) -> None:
        for text in ("CLUSTERDOWN The cluster is down", "READONLY You can't write", "LOADING Redis is loading"):
            course = self.course()
            self.assertEqual(course.address, self.first)
            course.answered(ErrorReply(text))
            self.assertEqual((course.over, course.address), (False, self.second))
            self.nodes.answered(self.first)

    def test_a_redirect_to_nowhere_is_tried_again(self) -> None:
        for text in ("MOVED 5", "MOVED ", "ASK 5 nowhere", "MOVED 5 127.0.0.1:port"):
            course = self.course()
            course.answered(ErrorReply(text))
            self.assertFalse(course.over)
            self.assertGreater(course.pause, 0)


class Courses(unittest.TestCase):
    def test_what_is_refused_until_the_time_is_over_is_not_counted(self) -> None:
        calls = Calls("priority", Policy(), None, None, timedelta(days=1), True)
        for vector in vectors("errors.json")["answers"]:
            if vector.get("then") == "again":
                for call in (calls.next("acme"), calls.submit("acme", "document", 0), calls.peek("acme")):
                    course: Course[Any] = Course(call, OneServer(), timeout=0.001)
                    course.answered(ErrorReply(vector["answer"]))
                    self.assertTrue(course.over)
                    self.assertRaises(docpriority.NotCountedError, course.result)


class Shelves(unittest.TestCase):
    def test_what_was_free_for_too_long_is_closed_and_the_rest_is_kept(self) -> None:
        shelf: Shelf[mock.Mock] = Shelf("nowhere", 9, 1)
        old, young = mock.Mock(), mock.Mock()
        shelf.give(old, 0)
        shelf.give(young, 1)
        shelf.drop_idle(_LONGEST_IDLE)
        old.close.assert_called_once()
        young.close.assert_not_called()
        self.assertIs(shelf.take(2, 3, 0), young)


class Replies(unittest.TestCase):
    def test_a_time_that_is_too_long_is_the_longest(self) -> None:
        call = Calls("priority", Policy(), None, None, timedelta(days=1), True).peek("acme")
        longest = timedelta.max - timedelta.max % timedelta(milliseconds=1)
        self.assertEqual(call.read([1, 1, 1, 0, 9 * 10**18, *[0] * 12]).reset_in, longest)

    def test_replies_are_read_however_they_come_in_pieces(self) -> None:
        text = b"*3\r\n:1\r\n:-20\r\n$4\r\na\r\nb\r\n+OK\r\n-ERR no\r\n$-1\r\n_\r\n>1\r\n+push\r\n:7\r\n"
        for size in (1, 2, 3, 7, len(text)):
            reader = ReplyReader()
            replies = [reply for at in range(0, len(text), size) for reply in reader.feed(text[at : at + size])]
            error = replies.pop(2)
            self.assertIsInstance(error, ErrorReply)
            self.assertEqual(getattr(error, "text"), "ERR no")
            self.assertEqual(replies, [[1, -20, b"a\r\nb"], b"OK", None, None, 7])
            self.assertTrue(reader.empty)

    def test_what_is_no_reply_is_told(self) -> None:
        for text in (b"HTTP/1.1 400 Bad Request\r\n", b":one\r\n", b"*x\r\n", b"\r\n", b"$-100\r\n", b"*1\r\n" * 5000):
            with self.assertRaises(ProtocolError):
                ReplyReader().feed(text)
