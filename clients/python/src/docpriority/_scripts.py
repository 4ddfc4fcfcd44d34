"""The scripts that Redis runs, with the numbers of a policy and a lease in them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib import resources

from ._policy import Policy, ResetMode, whole_milliseconds

_NAMES = ("next", "submit", "done", "peek", "reset")
_CHAIN = 8  # so many comparisons one after the other; more are halved first


class Script:
    """A text, and its digest by which Redis knows it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.sha1 = hashlib.sha1(text.encode()).hexdigest()


class Scripts:
    """The scripts of one policy and lease, by their names."""

    def __init__(self, policy: Policy, lease_milliseconds: int) -> None:
        blocks = _blocks(policy, lease_milliseconds)
        self._scripts = {}
        for name in _NAMES:
            text = _text(name)
            for block, lines in blocks.items():
                text = _replace(text, block, lines)
            self._scripts[name] = Script(text)

    def __getitem__(self, name: str) -> Script:
        return self._scripts[name]


def _text(name: str) -> str:
    return (resources.files(__package__) / "lua" / f"{name}.lua").read_bytes().decode()


def _blocks(policy: Policy, lease_milliseconds: int) -> dict[str, list[str]]:
    interval = whole_milliseconds("the reset interval", policy.reset_interval)
    since_last_reset = policy.reset_mode is ResetMode.SINCE_LAST_RESET
    first = max(1, -policy.thresholds[0]) if policy.thresholds else 1
    return {
        "policy": [f"local interval = '{interval}'", f"local since_last_reset = {str(since_last_reset).lower()}"],
        "lease": [f"local longest_lease = {lease_milliseconds}"],
        "scale": [f"local first = {first}", f"local levels = {policy.last}"],
        "levels": ["local level = 1", *_find(policy.thresholds, 1)],
    }


def _find(thresholds: Sequence[int], best: int) -> list[str]:
    """The lines that find a count's level; best is that of a count below none of them.

    They are those of the Go module, so that Redis keeps one script for all languages.
    """
    if len(thresholds) > _CHAIN:
        half = len(thresholds) // 2
        below = best + half + 1
        return [
            f"if count < {thresholds[half]} then",
            f"  level = {below}",
            *("  " + line for line in _find(thresholds[half + 1 :], below)),
            "else",
            *("  " + line for line in _find(thresholds[:half], best)),
            "end",
        ]
    if not thresholds:
        return []
    # The first and the last level, which most documents have, come first.
    lines = [f"if count < {thresholds[0]} then"]
    keyword = "if"
    for i in range(len(thresholds) - 1, 0, -1):
        lines.append(f"  {keyword} count < {thresholds[i]} then level = {best + i + 1}")
        keyword = "elseif"
    if keyword == "if":
        return [*lines, f"level = {best + 1}", "end"]
    return [*lines, f"  else level = {best + 1}", "  end", "end"]


def _replace(text: str, block: str, lines: list[str]) -> str:
    """Replaces the lines between "-- begin block" and "-- end block" in a text that has them."""
    begin, end = f"-- begin {block}\n", f"-- end {block}\n"
    before, found, rest = text.partition(begin)
    if not found:
        return text
    after = rest.partition(end)[2]
    return before + begin + "".join(line + "\n" for line in lines) + end + after
