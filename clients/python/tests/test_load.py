"""The rule by load: submit, done, and what peek says of it."""

import unittest
from datetime import timedelta
from typing import Any

from docpriority import Decision, Ended, NotCountedError, Override, Policy, Rule, State

from .support import LONG, StoreCase, both_kinds, needs_redis

NOTHING = timedelta()


@needs_redis
class Loads(StoreCase):
    def test_the_load_is_submitted_lately_times_pending_times_cost(self) -> None:
        store = self.open(timeout=LONG)
        for n in range(1, 7):
            decision = store.submit("acme", f"{n}")
            self.assertEqual((decision.count, decision.reset_in, decision.pending), (0, NOTHING, n))
            self.assertAlmostEqual(decision.load, n * n, delta=0.1)  # it fades as the test runs
            self.assertEqual(decision.level, (1, 2, 3, 3, 3, 4)[n - 1])
        again = store.submit("acme", "1")
        self.assertEqual((again.level, again.pending), (4, 6))

    def test_the_two_rules_share_nothing(self) -> None:
        store, server = self.open(timeout=LONG), self.redis()
        store.submit_n("acme", [f"{n}" for n in range(30)])
        self.assertIsNone(server.get(store.key("acme")))
        self.assertEqual(store.next("acme"), Decision(1, 0, timedelta(seconds=1500)))

    def test_a_cost_on_arrival_is_compared_with_what_this_store_has_submitted(self) -> None:
        store, pages = self.open(timeout=LONG), 12
        for n in range(99):
            store.submit(f"customer {n}", "document", pages)
        self.assertEqual(store.submit("early", "book", 50 * pages).load, 1)  # no average is known
        other = self.open(timeout=LONG)
        self.assertEqual(other.submit("other", "book", 50 * pages).load, 1)
        store = self.open(timeout=LONG)
        for n in range(2):
            store.submit_n(f"customer {n}", [f"{n}" for n in range(50)], [pages] * 50)
        book, leaf, unknown = store.submit_n("acme", ["book", "leaf", "unknown"], [50 * pages, pages / 4, 0])
        self.assertEqual((book.load, book.level), (50, 4))
        self.assertAlmostEqual(leaf.load, 2 * 2 * 0.25, delta=0.1)
        self.assertAlmostEqual(unknown.load, 3 * 3, delta=0.1)
        self.assertEqual(store.submit("heavy", "library", cost=1e9 * pages).load, 100)

    def test_a_cost_that_is_not_told_is_what_the_customers_documents_took(self) -> None:
        store = self.open(timeout=LONG)
        for n in range(2):
            documents = [f"{n}" for n in range(50)]
            store.submit_n(f"customer {n}", documents)
            store.done_n(f"customer {n}", documents, timedelta(seconds=50))
        store.submit("acme", "slow")
        store.done("acme", "slow", timedelta(seconds=11))
        self.assertEqual(store.peek("acme").cost, 2)
        self.assertAlmostEqual(store.submit("acme", "next").load, 2 * 1 * 2, delta=0.1)

    def test_floods_take_turns_behind_the_last_load(self) -> None:
        store = self.open(timeout=LONG, policy=Policy(loads=(2,), turns=2))
        self.assertEqual(store.last, 9)
        levels = [d.level for d in store.submit_n("acme", [f"{n}" for n in range(9)])]
        self.assertEqual(levels, [1, 2, 3, 3, 4, 4, 4, 4, 4])
        state = store.peek("acme")
        self.assertEqual((state.level, state.next_level, state.pending, state.pending_last), (4, 4, 9, 8))

    def test_done_returns_what_it_ended(self) -> None:
        store = self.open(timeout=LONG)
        store.submit_n("acme", ["a", b"b", "c"])
        self.assertIsNone(store.done("acme", "unknown"))
        ended = store.done("acme", "a")
        self.assertEqual(ended, Ended("a", ended.sojourn, 1))
        self.assertLess(ended.sojourn, timedelta(seconds=LONG))
        self.assertIsNone(store.done("acme", "a"))
        ended = store.done_n("acme", ["a", "c", b"b", "c"])
        self.assertEqual([(of.document, of.level) for of in ended], [("c", 3), (b"b", 2)])

    def test_who_finds_no_server_has_ended_nothing(self) -> None:
        store = self.open("redis://127.0.0.1:1", timeout=0.1)
        self.assertRaises(NotCountedError, store.done, "acme", "a")


@needs_redis
class States(StoreCase):
    def test_nothing_is_known_of_a_new_customer(self) -> None:
        store = self.open(timeout=LONG)
        self.assertEqual(store.peek("acme"), State(Rule.UNKNOWN, 0, 1))

    def test_a_customer_is_counted_by_one_rule(self) -> None:
        store = self.open(timeout=LONG)
        store.next_n("acme", 5)
        state = store.peek("acme")
        self.assertEqual(state, State(Rule.BY_COUNT, 2, 3, -4, state.reset_in))
        self.assertGreater(state.reset_in, timedelta(seconds=1500 - LONG))
        store.submit_n("acme", [f"{n}" for n in range(5)])
        state = store.peek("acme")
        self.assertEqual((state.rule, state.count), (Rule.BY_LOAD, -4))
        self.assertEqual((state.level, state.next_level, state.pending, state.pending_last), (3, 4, 5, 0))
        self.assertAlmostEqual(state.lately, 5, delta=0.1)
        self.assertAlmostEqual(state.load, 6 * 6, delta=0.2)
        self.assertEqual((state.cost, state.sojourn, state.lease), (1, NOTHING, timedelta(days=1)))
        store.done_n("acme", [f"{n}" for n in range(5)])
        state = store.peek("acme")
        self.assertEqual((state.rule, state.level, state.next_level, state.pending), (Rule.BY_LOAD, 0, 2, 0))
        self.assertEqual((state.oldest, state.lease), (NOTHING, timedelta(minutes=3)))
        self.assertGreater(state.sojourn, NOTHING)
        store.reset("acme")
        self.assertIs(store.peek("acme").rule, Rule.UNKNOWN)

    def test_each_answer_is_told_apart(self) -> None:
        server = self.scripted("answered")
        store = self.open(server.url, timeout=LONG)
        reply: list[Any] = [2, 5, 6, -7, 8, 9_500_000, 10_500, 11_500, 12, 13, 14, 15, 16, 17, 18, 19, 20]
        server.reply = b"*17\r\n" + b"".join(b":%d\r\n" % i for i in reply)
        times = [timedelta(milliseconds=ms) for ms in (8, 14, 15, 16, 20)]
        want = State(Rule.BY_LOAD, 5, 6, -7, times[0], 9.5, 10.5, 11.5, 12, 13, *times[1:4], 17, Override(18, 19), times[4])
        self.assertEqual(store.peek("acme"), want)


@needs_redis
class Overrides(StoreCase):
    def set(self, store: Any, override: Any, **end: int) -> None:
        self.redis().set(store.override_key("acme"), override, **end)

    def test_next_goes_by_an_override_and_counts_all_the_same(self) -> None:
        store = self.open(timeout=LONG, overrides=True)
        self.set(store, ">=3")
        self.assertEqual(store.next("acme"), Decision(3, 0, timedelta(seconds=1500), ruled=1))
        decisions = store.next_n("acme", 6)
        self.assertEqual([(d.level, d.ruled, d.count) for d in decisions[-3:]], [(3, 2, -4), (3, 3, -5), (3, 3, -6)])
        self.set(store, "=99")
        self.assertEqual((store.next("acme").level, store.last), (9, 9))
        self.set(store, "<=2")
        self.assertEqual(store.next("acme").level, 2)
        self.set(store, "=1000")  # what cannot be is none
        self.assertEqual(store.next("acme"), Decision(5, -9, timedelta(seconds=1500)))

    def test_submit_goes_by_an_override(self) -> None:
        store = self.open(timeout=LONG, overrides=True, policy=Policy((-1, -2)))
        self.set(store, "=2")
        self.assertEqual((store.submit("acme", "1").level, store.submit("other", "1").ruled), (2, 0))
        decisions = store.submit_n("acme", [f"{n}" for n in range(100)])
        self.assertEqual((decisions[0].ruled, decisions[-1].ruled, decisions[-1].pending), (1, 2, 100))
        self.assertEqual({d.level for d in decisions}, {2})
        self.assertEqual(store.done("acme", "1").level, 2)

    def test_peek_shows_the_override_and_reset_leaves_it(self) -> None:
        store = self.open(timeout=LONG, overrides=True)
        self.set(store, ">=7")
        state = store.peek("acme")
        self.assertEqual(state, State(Rule.UNKNOWN, 0, 7, ruled=1, override=Override(7, 9)))
        self.set(store, "=1", ex=1000)
        store.reset("acme")
        state = store.peek("acme")
        self.assertEqual((state.override, state.next_level), (Override(1, 1), 1))
        self.assertLessEqual(timedelta(seconds=1000 - LONG), state.override_ends_in)

    def test_a_store_reads_no_overrides_unless_it_is_asked_to(self) -> None:
        store = self.open(timeout=LONG)
        self.set(store, "=9")
        self.assertEqual((store.next("acme").level, store.submit("acme", "1").level, store.peek("acme").override), (1, 1, None))


both_kinds(globals())

if __name__ == "__main__":
    unittest.main()
