"""The scripts that Redis runs, with the numbers of a policy and a lease in them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache

from ._lua import TEXTS
from ._policy import Policy, ResetMode, whole_milliseconds


class Script:
    """A text, and its digest by which Redis knows it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.sha1 = hashlib.sha1(text.encode()).hexdigest()


@lru_cache(maxsize=3000)
def script_of(name: str, policy: Policy, levels: int, lease_milliseconds: int) -> Script:
    """Returns a script of one policy, for a queue of so many levels."""
    text = TEXTS[name]
    for block, lines in _blocks(policy, levels, lease_milliseconds).items():
        text = _replace(text, block, lines)
    return Script(text)


@lru_cache(maxsize=None)
def plain_script(name: str) -> Script:
    """Returns a script that is the same for all policies."""
    return Script(TEXTS[name])


def _blocks(policy: Policy, levels: int, lease_milliseconds: int) -> dict[str, list[str]]:
    interval = whole_milliseconds("the reset interval", policy.reset_interval)
    since_last_reset = policy.reset_mode is ResetMode.SINCE_LAST_RESET
    return {
        "policy": [f"local interval = '{interval}'", f"local since_last_reset = {str(since_last_reset).lower()}"],
        "order": [f"local in_order = {str(policy.in_order).lower()}"],
        "lease": [f"local longest_lease = {lease_milliseconds}"],
        "queue": [f"local queue_levels = {levels}"],
        "levels": _levels(policy.thresholds, "count <", "count >="),
        "loads": _levels(policy._millionths, "load >", "load <=") + _turns(len(policy.loads) + 1, policy._turns_begin),
    }


def _levels(bounds: Sequence[int], beyond: str, within: str) -> list[str]:
    """The lines that find a level, as the Go module writes them: Redis keeps one script for all."""
    lines = ["local level = 1"]
    if bounds:
        lines.append(f"if {beyond} {bounds[-1]} then level = {len(bounds) + 1}")
        lines += [f"elseif {within} {bound} then level = {i}" for i, bound in enumerate(bounds, 1)]
        lines.append("end")
    return lines


def _turns(last: int, begins: Sequence[int]) -> list[str]:
    """The lines that find a document's turn behind the last load, whose level is last."""
    lines = [f"local flood = level == {last} -- beyond the last load: take turns"]
    if begins:
        lines.append("if not flood then -- its level stands")
        lines += [f"elseif pending_flood >= {begins[i]} then level = {last + 1 + i}" for i in reversed(range(len(begins)))]
        lines.append("end")
    return lines


def _replace(text: str, block: str, lines: list[str]) -> str:
    """Replaces the lines between "-- begin block" and "-- end block" in a text that has them."""
    begin, end = f"-- begin {block}\n", f"-- end {block}\n"
    before, found, rest = text.partition(begin)
    if not found:
        return text
    after = rest.partition(end)[2]
    return before + begin + "".join(line + "\n" for line in lines) + end + after
