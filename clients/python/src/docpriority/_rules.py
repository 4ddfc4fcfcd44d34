"""The rules that operators set, and which are in force in this process. It does no I/O."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any, NamedTuple

from redis.exceptions import AuthenticationError, ResponseError

from ._calls import Call, Calls, Lost
from ._errors import PriorityError
from ._policy import Policies, Policy, ResetMode, Unusable
from ._report import printable
from ._scripts import plain_script

_VERSIONS, _TIMES = 10**13, 2**63  # exclusive limits, as in Go
_LONGEST_INTERVAL = 9_223_372_036_854  # milliseconds, the limit of Go's durations
_UNREADABLE = "the rules in Redis cannot be read"
_MODES = {"": ResetMode.SINCE_LAST_UPDATE, "last-update": ResetMode.SINCE_LAST_UPDATE, "last-reset": ResetMode.SINCE_LAST_RESET}
_HEAD = re.compile(rb'{"version":\d+,"changed":\d+')


class _Change(NamedTuple):
    """Which change of the rules."""

    version: int = 0  # 0: none
    changed: int = 0


class _Known(NamedTuple):
    followed: _Change = _Change()
    own: bool = True  # the store's policies are in force
    newest: _Change = _Change()  # that was read, usable or not
    head: bytes = b""  # beginning of the rules in Redis, for follow.lua
    refused: str = ""  # why the rules that were read are not used
    failure: str = ""  # why the last reading failed


class Follower:
    """Makes a store decide by the newest of the operators' rules that it can use.

    All that it knows changes by one assignment, so a child after a fork inherits all of it.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._known = _Known()

    @property
    def status(self) -> dict[str, Any]:
        """For a report: the version that is followed, whether the store's own policies are in force, and why the
        newest rules are not followed."""
        known = self._known
        return {"version": known.followed.version, "own": known.own, "error": printable(known.failure or known.refused, 200)}

    def call(self) -> Call[None]:
        """Returns the call that reads the rules in force and follows them."""
        return Call(
            "follow", plain_script("follow"), [self._calls.key("control", "rules")], [self._known.head], Lost.CHANGES_NOTHING, 1,
            lambda reply, degraded: self._answered(reply[1:]), takes=(int, bytes),
        )  # fmt: skip

    def failed(self, error: PriorityError) -> None:
        """The call failed: what is known stays in force."""
        why = str(error).partition(":rules': ")[2]
        if not isinstance(error.__cause__, (AuthenticationError, ResponseError)):
            failure = "Redis does not answer"
        elif why.startswith("CORRUPT "):
            failure = _UNREADABLE
        else:
            failure = f"Redis refuses to show the rules: {why}"
        self._known = self._known._replace(failure=failure)

    def _answered(self, changed: list[bytes]) -> None:
        known = self._known._replace(failure="")
        for text in changed[:1]:
            head = _HEAD.match(text)
            known = known._replace(head=head[0] if head else text and b"junk", refused="")
            try:
                read, rules = _read(text)
                if read != known.newest and read.version <= known.newest.version and read.changed <= known.newest.changed:
                    raise Unusable(f"Redis lost data: version {known.newest.version} was known, {read.version or 'none'} is there")
                known = known._replace(newest=read)
                self._calls.in_force = _policies(self._calls.own, rules)
                known = known._replace(followed=read, own=rules is None)
            except Unusable as error:
                known = known._replace(refused=str(error))
            except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError):
                known = known._replace(refused=_UNREADABLE)
        self._known = known


def _read(text: bytes) -> tuple[_Change, Any]:
    """Reads what rules.lua stores; nothing is version 0, and no rules."""
    if not text:
        return _Change(), None
    item = json.loads(text.decode())
    if (item.get("format") or 1) > 1:
        raise Unusable("a later version of the library wrote the rules")
    read = _Change(item["version"], item["changed"])
    if not all(type(n) is int and 0 < n < end for n, end in zip(read, (_VERSIONS, _TIMES))):
        raise ValueError("not written by rules.lua")
    return read, item.get("rules")


def _policies(own: Policies, rules: Any) -> Policies:
    """Returns the policies of rules; None: those of the process."""
    if rules is None:
        return own
    tiers = rules.pop("tiers", None)
    tiers = {name: _policy(tier) for name, tier in ({} if tiers is None else tiers).items()}
    return own.with_rules(_policy(rules), tiers)


def _policy(fields: dict[str, Any]) -> Policy:
    """Reads a policy in JSON. A missing field has the default's value; an unknown one is a TypeError."""
    given = {name: value for name, value in fields.items() if value is not None}
    interval, mode = given.pop("reset_interval_ms", 0), _MODES[given.pop("reset_mode", "")]
    if type(interval) is not int or interval > _LONGEST_INTERVAL:
        raise TypeError("reset_interval_ms is not a whole number, or too great")
    if any(not isinstance(given.get(name, []), list) for name in ("thresholds", "loads")):
        raise TypeError("thresholds or loads are not a list")
    if interval:
        given = {"reset_interval": timedelta(milliseconds=interval), **given}
    return Policy(reset_mode=mode, **given)
