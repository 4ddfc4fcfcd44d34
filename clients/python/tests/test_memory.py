"""The rules in memory: by the vectors, and against a server."""

import doctest
import json
import random
import re
import unittest
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import docpriority
from docpriority import Ended, NotCountedError, Override, Policy, ResetMode, Rule, _memory, testing
from docpriority._memory import Memory, Overrides
from docpriority.testing import AsyncMemoryStore, MemoryStore

from .support import LONG, VECTORS, StoreCase, both_kinds, needs_redis, prefix

DAY = 86_400_000
STATE = (
    "level", "next_level", "count", "reset_in_ms", "load", "lately", "cost", "pending", "pending_last", "oldest_ms", "sojourn_ms", "lease_ms",
)
RULES = ("unknown", "by_count", "by_load")
OVERRIDE = re.compile("([<>]?=)([1-9][0-9]{0,2})")


def vectors(file: str) -> Any:
    return json.loads((VECTORS / file).read_text())


def policy_of(fields: dict[str, Any]) -> Policy:
    given = {**fields, "reset_interval": timedelta(milliseconds=fields["reset_interval_ms"]), "reset_mode": ResetMode(fields["reset_mode"])}
    del given["reset_interval_ms"]
    return Policy(**given)


class Case:
    """A memory in the virtual time of a case of the vectors."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.now = 0
        self.policy = policy_of(case["policy"])
        self.overrides = Overrides(lambda: self.now)
        self.memory = Memory(self.policy.last, case.get("lease_ms", DAY), self.overrides, lambda: self.now)

    def do(self, step: dict[str, Any]) -> Any:
        """Does a step, and returns what it came to as the vectors say it."""
        self.now = step["at_ms"]
        customer, n = step["customer"].encode(), step.get("n", 1)
        documents = [document.encode() for document in step.get("documents", ())]
        if step["do"] == "set":
            self.set_override(customer, step["value"], step.get("ttl_ms", -1))
            return None
        if step["do"] == "next":
            level, last, reset_in, *ruling = self.memory.next(customer, self.policy, n)
            counts = range(last + n - 1, last - 1, -1)
            plain = [{"level": self.policy.level(count), "count": count, "reset_in_ms": reset_in} for count in counts]
            if ruling:
                plain = [{**of, "ruled": of["level"], "level": min(max(of["level"], ruling[1]), ruling[2])} for of in plain]
            assert plain[-1]["level"] == level
            return plain
        if step["do"] == "submit":
            reply = self.memory.submit(customer, self.policy, documents, step.get("costs") or [0] * len(documents))
            decided = list(zip(*(reply[i : 4 * len(documents) : 4] for i in range(4))))
            names = ("level", "load", "pending", "ruled")
            return [{name: value for name, value in zip(names, of) if name != "ruled" or value} for of in decided]
        if step["do"] == "done":
            reply = self.memory.done(customer, documents, step.get("cost", 0))
            return [{"level": level, "sojourn_ms": sojourn} for sojourn, level in zip(reply[::2], reply[1::2])]
        if step["do"] == "peek":
            rule, *reply = self.memory.peek(customer, self.policy)
            state = {"rule": RULES[rule], **dict(zip(STATE, reply))}
            if reply[12]:
                state.update(zip(("ruled", "earliest", "latest"), reply[12:15]))
                state.update({"override_ends_in_ms": reply[15]} if reply[15] > 0 else {})
            return state
        return self.memory.reset(customer)

    def set_override(self, customer: bytes, value: str, ends_in: int) -> None:
        found = OVERRIDE.fullmatch(value)
        assert found
        level = int(found[2])
        self.overrides.put(customer, 1 if found[1] == "<=" else level, 255 if found[1] == ">=" else level, ends_in)


class Vectors(unittest.TestCase):
    def test_decisions_are_those_of_the_vectors(self) -> None:
        for file in ("rule.json", "submit.json"):
            for case in vectors(file)["cases"]:
                self.run_case(case)

    def test_so_are_they_where_operators_set_overrides(self) -> None:
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
                got = memory.do(step)
                self.assertEqual(got, step.get("want", step.get("state")), step)

    def test_the_arithmetic_is_that_of_the_vectors(self) -> None:
        load = vectors("load.json")
        for left, lately in load["lately"]:
            known = _memory._Customer()
            known.fades_at = left
            self.assertEqual(known.lately(0), lately)
        for lately, left in load["left"]:
            known = _memory._Customer()
            known.submitted(lately, 0)
            self.assertEqual(known.fades_at, left)
        for beyond, turns, turn in load["turns"]:
            self.assertEqual(_memory._level(Policy(loads=(), turns=turns), 1, beyond), 1 + turn)


@needs_redis
class AgainstAServer(StoreCase):
    """Random sequences come to the same in memory and on a server. Both have the server's clock."""

    def test_random_sequences_are_decided_alike(self) -> None:
        server, own = self.redis(), prefix()
        passing = server.register_script((Path(__file__).parent / "pass.lua").read_text())
        policies: dict[str, Any] = {
            "policy": Policy(turns=4, loads=(2, 8, 32), reset_interval=timedelta(seconds=90)),
            "tiers": {"b": Policy(thresholds=(-1, -2), reset_mode=ResetMode.SINCE_LAST_RESET, reset_interval=timedelta(minutes=7))},
            "tier_of": str, "lease": timedelta(hours=3),
        }
        store = self.open(prefix=own, timeout=LONG, overrides=True, **policies)
        now = 0.0
        memory = MemoryStore(clock=lambda: now, **policies)
        choose, pending = random.Random(23), []
        for step in range(1500):
            customer = choose.choice("abc")
            does = choose.choice(("next", "next_n", "submit", "submit", "submit_n", "done", "done", "done_n", "peek", "pass", "override", "reset"))
            arguments: list[Any] = [customer]
            if does == "pass":
                seconds = choose.choice((1, 13, 31, 200, 4000, 40_000)) if step % 4 == 0 else 3
                for name in "abc":
                    passing([store.key(name), store.pending_key(name), store.usage_key(name), store.override_key(name)], [seconds * 1000, 1])
                memory.advance(timedelta(seconds=seconds))
                continue
            if does == "override":
                earliest = choose.randrange(1, 9)
                server.set(store.override_key(customer), f">={earliest}", px=30_000)
                memory.set_override(customer, Override(earliest, 255), timedelta(seconds=30))
                continue
            if does == "reset" and choose.random() < 0.9:
                continue
            if does == "next_n":
                arguments.append(choose.randrange(1, 9))
            elif does == "submit":
                arguments += [choose.choice(pending)[1] if pending and choose.random() < 0.2 else f"{step}"]
                pending.append((customer, arguments[1]))
            elif does == "submit_n":
                arguments.append([f"{step}-{n // 2 * 2}" for n in range(choose.randrange(1, 30))])
                pending += [(customer, document) for document in arguments[1]]
            elif does == "done" and pending:
                arguments = list(pending.pop(choose.randrange(len(pending))))
            elif does in ("done", "done_n"):
                ended = [document for _, document in pending[:12]]
                arguments = [customer, ended or ["none"]]
                does = "done_n"
            want = getattr(store, does)(*arguments)
            seconds, micros = server.time()
            now = seconds + micros / 1e6
            got = getattr(memory, does)(*arguments)
            with self.subTest(step=step, does=does, arguments=arguments):
                self.assert_alike(got, want)

    def assert_alike(self, got: Any, want: Any) -> None:
        """Asserts that both are the same, but for some milliseconds."""
        if isinstance(want, list):
            self.assertEqual(len(got), len(want))
            for one, other in zip(got, want):
                self.assert_alike(one, other)
            return
        self.assertEqual(type(got), type(want))
        for name, value in vars(want).items() if want is not None else ():
            mine = getattr(got, name)
            if name in ("load", "lately"):
                self.assertAlmostEqual(mine, value, delta=value / 100 + 0.001)
            elif isinstance(value, timedelta):
                self.assertLess(abs(mine - value), timedelta(seconds=10), name)
            elif name == "override" and value is not None:
                self.assertEqual((mine.earliest, mine.latest), (value.earliest, value.latest))
            else:
                self.assertEqual(mine, value, name)


class Bounds(unittest.TestCase):
    def setUp(self) -> None:
        bounded = mock.patch.multiple(_memory, _MOST_ENTRIES=20, _MOST_OVERRIDES=3)
        bounded.start()
        self.addCleanup(bounded.stop)
        self.store = MemoryStore()

    def test_customers_leave_oldest_first(self) -> None:
        for n in range(40):
            self.store.submit(f"{n}", "document")
            self.store.next("regular")
        known = [n for n in range(40) if self.store.peek(f"{n}").rule is Rule.BY_LOAD]
        self.assertEqual((known[-1], len(known)), (39, 9))  # each takes two entries, and the regular one
        self.assertEqual(self.store.peek("regular").count, -39)

    def test_one_customer_alone_keeps_the_latest_documents(self) -> None:
        for n in range(100):
            self.store.submit("acme", f"{n}")
        self.assertEqual(self.store.peek("acme").pending, 19)
        self.assertIsNotNone(self.store.done("acme", "99"))
        self.assertIsNone(self.store.done("acme", "0"))

    def test_what_is_over_leaves(self) -> None:
        for n in range(8):
            self.store.submit(f"{n}", "document")
        self.store.advance(timedelta(days=3))
        for _ in range(9):
            self.store.next("another")
        self.assertEqual(self.store._in_memory._memory._entries, 1)

    def test_overrides_leave_oldest_first(self) -> None:
        for n in range(9):
            self.store.set_override(f"{n}", Override(7, 7))
        self.assertEqual([self.store.next(f"{n}").level for n in range(9)], [1] * 6 + [7] * 3)


class Stores(StoreCase):
    def open_memory(self, **options: Any) -> Any:
        if not self.asynchronous:
            return MemoryStore(**options)
        store = AsyncMemoryStore(**options)
        outer = self

        class Awaited:
            def __getattr__(self, name: str) -> Any:
                attribute = getattr(store, name)
                if name in ("next", "next_n", "submit", "submit_n", "done", "done_n", "peek", "reset", "close"):
                    return lambda *arguments: outer.loop.run(attribute(*arguments))
                return attribute

        return Awaited()

    def test_it_is_a_store(self) -> None:
        self.assertTrue(issubclass(MemoryStore, docpriority.Store))
        self.assertTrue(issubclass(AsyncMemoryStore, docpriority.AsyncStore))
        store = self.open_memory(policy=Policy(turns=3), clock=lambda: 0.0)
        self.assertEqual(store.last, 12)
        self.assertEqual([d.level for d in store.submit_n("acme", ["a", b"b"], [1, 2])], [1, 2])
        self.assertEqual(store.done_n("acme", [b"a", "b", "c"]), [Ended(b"a", timedelta(), 1), Ended("b", timedelta(), 2)])
        self.assertIsNone(store.done("acme", "a"))
        self.assertRaises(ValueError, store.submit, "", "a")
        self.assertRaises(TypeError, store.next, 7)
        self.assertEqual([d.count for d in store.next_n("é", 3)], [0, -1, -2])
        self.assertEqual(store.next("é".encode()).count, -3)
        store.reset("é")
        self.assertEqual(store.peek("é").rule, Rule.UNKNOWN)
        store.close()
        self.assertRaises(NotCountedError, store.next, "acme")

    def test_time_moves_as_it_is_told(self) -> None:
        store = self.open_memory(clock=lambda: 0.0)
        store.submit("acme", "a")
        store.advance(timedelta(minutes=10))
        self.assertEqual(store.peek("acme").oldest, timedelta(minutes=10))
        ended = store.done("acme", "a", timedelta(seconds=5))
        self.assertEqual((ended.sojourn, ended.level), (timedelta(minutes=10), 1))
        self.assertRaises(ValueError, store.advance, timedelta(-1))

    def test_overrides_hold_until_they_end(self) -> None:
        store = self.open_memory(clock=lambda: 0.0)
        store.set_override("acme", Override(3, 255), timedelta(minutes=1))
        self.assertEqual((store.submit("acme", "a").level, store.submit("acme", "a").ruled), (3, 1))
        self.assertEqual(store.peek("acme").override, Override(3, 9))
        store.advance(timedelta(minutes=2))
        self.assertEqual(store.next("acme").level, 1)
        self.assertRaises(ValueError, store.set_override, "acme", Override(9, 9), timedelta(seconds=-1))
        store.set_override("acme", Override(2, 2))
        self.assertEqual(store.next("acme").ruled, 1)
        store.set_override("acme", None)
        self.assertEqual(store.next("acme").ruled, 0)

    def test_costs_are_compared(self) -> None:
        store = self.open_memory()
        for n in range(100):
            store.submit(f"{n}", "a", 10)
        self.assertEqual([round(store.submit(f"new {cost}", "a", cost).load, 1) for cost in (5, 10, 30)], [0.5, 1, 3])


class Threads(unittest.TestCase):
    def test_threads_may_use_it_together(self) -> None:
        store = MemoryStore()

        def work(worker: int) -> list[int]:
            for n in range(200):
                store.submit("acme", f"{worker}-{n}")
                store.done("acme", f"{worker}-{n}")
            return [store.next("acme").count for _ in range(200)]

        with ThreadPoolExecutor(8) as threads:
            counts = [count for counted in threads.map(work, range(8)) for count in counted]
        self.assertEqual(sorted(counts), list(range(-1599, 1)))
        state = store.peek("acme")
        self.assertEqual((state.pending, round(state.lately)), (0, 512))  # it fades, slowly
        self.assertEqual(store._in_memory._memory._entries, 1)


class Documentation(unittest.TestCase):
    def test_the_example_does_what_it_says(self) -> None:
        self.assertEqual(doctest.testmod(testing)[0], 0)


both_kinds(globals())
