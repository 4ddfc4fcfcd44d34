"""The scripts that Redis runs, with the numbers of a policy and a lease in them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources

from ._policy import Policy, ResetMode, millionths, whole_milliseconds

_NAMES = ("next", "submit", "done", "peek", "reset")


class Script:
    """A text, and its digest by which Redis knows it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.sha1 = hashlib.sha1(text.encode()).hexdigest()


class Scripts:
    """The scripts of one policy, by their names, for a queue of so many levels."""

    def __init__(self, policy: Policy, levels: int, lease_milliseconds: int) -> None:
        blocks = _blocks(policy, levels, lease_milliseconds)
        self._scripts: dict[str, Script] = {}
        for name in _NAMES:
            text = _text(name)
            for block, lines in blocks.items():
                text = _replace(text, block, lines)
            self._scripts[name] = Script(text)

    def __getitem__(self, name: str) -> Script:
        return self._scripts[name]


@lru_cache(maxsize=None)
def plain_script(name: str) -> Script:
    """Returns a script that is the same for all policies."""
    return Script(_text(name))


@lru_cache(maxsize=None)
def _text(name: str) -> str:
    return (resources.files(__package__) / "lua" / f"{name}.lua").read_bytes().decode()


def _blocks(policy: Policy, levels: int, lease_milliseconds: int) -> dict[str, list[str]]:
    interval = whole_milliseconds("the reset interval", policy.reset_interval)
    since_last_reset = policy.reset_mode is ResetMode.SINCE_LAST_RESET
    return {
        "policy": [f"local interval = '{interval}'", f"local since_last_reset = {str(since_last_reset).lower()}"],
        "lease": [f"local longest_lease = {lease_milliseconds}"],
        "turns": [f"local last, turns = {len(policy.loads) + 1}, {policy.turns}"],
        "queue": [f"local queue_levels = {levels}"],
        "levels": _levels(policy.thresholds, "count <", "count >="),
        "loads": _levels([millionths(load) for load in policy.loads], "load >", "load <="),
    }


def _levels(bounds: Sequence[int], beyond: str, within: str) -> list[str]:
    """The lines that find a level, as the Go module writes them: Redis keeps one script for all."""
    lines = ["local level = 1"]
    if bounds:
        lines.append(f"if {beyond} {bounds[-1]} then level = {len(bounds) + 1}")
        lines += [f"elseif {within} {bound} then level = {i}" for i, bound in enumerate(bounds, 1)]
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
