"""The rules that operators set: which ones hold in this process. No input or output is done here."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, NamedTuple

from ._calls import Call, Calls, Lost
from ._errors import PriorityError
from ._policy import Policies, Policy, ResetMode
from ._scripts import plain_script

_WHOLE_EVERY = 60.0  # seconds; somebody may have lost or repaired the rules and not the version
_GREATEST = 2**63 - 1  # that a report's reader knows
_LONGEST_INTERVAL = 9_223_372_036_854  # milliseconds, as Go has times
_UNREADABLE = "the rules in Redis cannot be read"
_MODES = {"": ResetMode.SINCE_LAST_UPDATE, "last-update": ResetMode.SINCE_LAST_UPDATE, "last-reset": ResetMode.SINCE_LAST_RESET}
_VERSION = re.compile(rb"([1-9][0-9]{0,14}) ([0-9]{1,15}) ([^ ]+)")
_CODE = re.compile(r": ([A-Z]+) ")


class _Change(NamedTuple):
    """Tells changes apart."""

    version: int = 0
    at: int = 0
    token: bytes = b""

    def newer(self, than: _Change) -> bool:
        """Reports whether it came after another one: after a failover, two may have the same version."""
        return self.version > than.version or self.version == than.version and self.token != than.token or self.at > than.at


@dataclass(frozen=True)
class _Known:
    rules: _Change = _Change()  # in force, with their text for a token
    last: _Change = _Change()  # the last one of any kind
    seen: bytes = b""  # what the key of the version held
    read_at: float = 0.0  # when the rules were read
    error: str = ""  # why the rules that were read are not used
    failure: str = ""  # why the last reading failed


class Follower:
    """Has a store decide by the operators' rules: by the newest that it can use.

    All that it knows changes by one assignment, so that a child after a fork goes on with it.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._known = _Known()

    @property
    def version(self) -> int:
        """The version of the rules that are followed, or of their withdrawal; 0: none were ever set."""
        return self._known.rules.version

    @property
    def error(self) -> str:
        """Why no newer rules are followed, in words for operators; empty: they are."""
        return self._known.failure or self._known.error

    def call(self, now: float) -> Call[None]:
        """Returns the call that asks which rules hold, and goes by them."""
        known = self._known
        whole = now - known.read_at > _WHOLE_EVERY
        keys = [self._calls.key("control", end) for end in ("version", "rules")]
        return Call(
            "follow", plain_script("follow"), keys, [b"" if whole else known.seen], Lost.CHANGES_NOTHING, 1,
            lambda reply, degraded: self._answered(reply, now), takes=(bytes, int, type(None)),
        )

    def failed(self, error: PriorityError) -> None:
        """The call failed: what is known stays in force."""
        code = _CODE.search(str(error))
        if code is None:
            failure = "Redis does not answer"
        elif code[1] == "CORRUPT":
            failure = _UNREADABLE
        else:
            failure = f"Redis refuses to show the rules: {code[1]}"
        self._known = replace(self._known, failure=failure)

    def _answered(self, reply: list[Any], now: float) -> None:
        known = self._known
        if len(reply) > 1:
            seen, rules = (text if isinstance(text, bytes) else b"" for text in reply[:2])
            known = self._gone_by(replace(known, seen=seen, read_at=now, error=""), rules)
        self._known = replace(known, failure="")

    def _gone_by(self, known: _Known, text: bytes) -> _Known:
        """Returns what is known after the rules were read, and goes by them if they are newer."""
        try:
            last = _last(known.seen)
            if last.newer(known.last):
                known = replace(known, last=last)
            elif last != known.last:
                known = replace(known, error=f"Redis lost data: version {known.last.version} was known, {last.version} is there")
            if text == known.rules.token:
                return known
            item = _item(text)
            rules = _Change(item["version"], item["at"], text)
            if known.rules.version and not rules.newer(known.rules):
                there = f"{rules.version} is there" if text else "none are there"
                raise _Unusable(f"Redis lost data: rules of version {known.rules.version} were known, {there}")
            self._calls.in_force = _policies(self._calls.own, item["rules"])
            return replace(known, rules=rules)
        except _Unusable as error:
            return replace(known, error=str(error))


class _Unusable(Exception):
    """Why rules are not used, in words for operators."""


def _last(text: bytes) -> _Change:
    if not text:
        return _Change()
    parts = _VERSION.fullmatch(text)
    if parts is None:
        raise _Unusable(_UNREADABLE)
    return _Change(int(parts[1]), int(parts[2]), parts[3])


def _item(text: bytes) -> dict[str, Any]:
    """Reads what change.lua stores; nothing is version 0."""
    if not text:
        return {"version": 0, "at": 0}
    try:
        item = json.loads(text.decode())
        if (item.get("format") or 1) > 1:
            raise _Unusable("a later version of the library wrote the rules")
        if not isinstance(item.get("rules"), (dict, type(None))):
            raise ValueError
        if not (type(item["version"]) is type(item["at"]) is int and 0 < item["version"] <= _GREATEST and 0 < item["at"] <= _GREATEST):
            raise ValueError
        return {"rules": None, **item}
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        raise _Unusable(_UNREADABLE) from None


def _policies(own: Policies, rules: Any) -> Policies:
    """Returns the policies of rules, for a process that has some of its own; None: its own."""
    if rules is None:
        return own
    try:
        tiers = {} if rules.get("tiers") is None else rules["tiers"]
        if not isinstance(tiers, dict):
            raise TypeError("tiers is not an object")
        policy = _policy({name: value for name, value in rules.items() if name != "tiers"})
        tiers = {name: _policy(tier) for name, tier in tiers.items()}
    except (OverflowError, RecursionError, TypeError, ValueError):
        raise _Unusable(_UNREADABLE) from None
    for name, tier in tiers.items():
        if tier.last > policy.last:
            shown = json.dumps(name[:80], ensure_ascii=False)
            raise _Unusable(f"tier {shown} has {tier.last} levels, more than the {policy.last} of the policy")
    policies = own.with_rules(policy, tiers)
    if policies.last > own.last:
        raise _Unusable(f"its queue has {own.last} levels, the rules {policies.last}")
    return policies


def _policy(fields: Any) -> Policy:
    """Reads a policy in JSON. What is left out is the default's."""
    if not isinstance(fields, dict):
        raise TypeError("a policy is not an object")
    given = {name: value for name, value in fields.items() if value is not None}
    options: dict[str, Any] = {name: given.pop(name) for name in ("thresholds", "loads", "turns") if name in given}
    for name in ("thresholds", "loads"):
        if not isinstance(options.get(name, []), list):
            raise TypeError(f"{name} is not a list")
    interval, mode = given.pop("reset_interval_ms", 0), given.pop("reset_mode", "")
    if type(interval) is not int or interval > _LONGEST_INTERVAL:
        raise TypeError("reset_interval_ms is not a whole number that is not too great")
    if mode not in _MODES:
        raise ValueError("reset_mode is not last-update or last-reset")
    if given:
        raise ValueError("there are unknown fields")
    if interval:
        options["reset_interval"] = timedelta(milliseconds=interval)
    return Policy(reset_mode=_MODES[mode], **options)
