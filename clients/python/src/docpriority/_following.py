"""The policies that operators set, and those that this process follows. It does no I/O."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any, NamedTuple

from ._calls import Call, Calls, Lost
from ._classify import code_of
from ._errors import PriorityError
from ._policy import Policies, Policy, ResetMode
from ._report import printable
from ._scripts import plain_script

_VERSIONS, _TIMES = 10**13, 2**63  # exclusive limits, as in Go
_LONGEST_INTERVAL = 9_223_372_036_854  # milliseconds, the limit of Go's durations
_FIELDS = {"thresholds", "loads", "turns", "reset_interval_ms", "reset_mode", "in_order"}
_MODES = {"": ResetMode.SINCE_LAST_UPDATE, "last-update": ResetMode.SINCE_LAST_UPDATE, "last-reset": ResetMode.SINCE_LAST_RESET}
_HEAD = re.compile(rb'{"version":\d+,"changed":\d+')


class _NotFollowed(Exception):
    """Says why the newest policies are not followed: by the code, and perhaps the detail, of a report."""


class _Change(NamedTuple):
    """Which change of the policies."""

    version: int = 0  # 0: none were ever set
    changed: int = 0


class _Progress(NamedTuple):
    followed: _Change = _Change()
    own: bool = True  # the store's policies apply
    newest: _Change = _Change()  # that was read, followed or not
    head: bytes = b""  # how the text that is followed begins, for follow.lua
    latest: int = 0  # when operators last changed something, by Redis's clock; a later reading of an older log leaves it
    failure: dict[str, str] = {}  # why the latest reading failed, or is not followed, as a report has it


class Follower:
    """Makes a store decide by the newest of the operators' policies that it can use.

    All that it has learned changes by one assignment, so a child after a fork inherits all of it.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._progress = _Progress()

    @property
    def following(self) -> dict[str, Any]:
        """What a report says: the version that is followed, whether the store's own policies apply, and, if the newest
        ones are not followed, a code and perhaps a detail for why not."""
        progress = self._progress
        return {"version": progress.followed.version, "own": progress.own, **progress.failure}

    @property
    def changed(self) -> int:
        """When operators last changed something, in milliseconds of Redis's clock; 0: they never did."""
        return self._progress.latest

    def call(self) -> Call[None]:
        """Returns the call that reads the policies and follows them."""
        return Call(
            "follow", plain_script("follow"), [self._calls.key("control", name) for name in ("policies", "log")], [self._progress.head],
            Lost.CHANGES_NOTHING, 2,
            lambda reply, degraded: self._answered(reply), takes=(int, bytes),
        )  # fmt: skip

    def failed(self, error: PriorityError) -> None:
        """The call failed: the process goes on with the policies that it follows."""
        code = code_of(error.__cause__)
        failure = _reason("corrupt") if code == "CORRUPT" else _reason("refused", code) if code else _reason("unreachable")
        self._progress = self._progress._replace(failure=failure)

    def _answered(self, reply: list[Any]) -> None:
        now, latest = reply[:2]
        progress = self._progress._replace(failure={}, latest=max(self._progress.latest, min(latest, now)))
        self._progress = self._follow(now, reply[2], progress) if len(reply) > 2 else progress

    def _follow(self, now: int, text: bytes, progress: _Progress) -> _Progress:
        """Follows the policies that Redis has, if it can. If not, they are read again: people may repair them."""
        head, newest = _HEAD.match(text), progress.newest
        try:
            read, policies = _read(text)
            if read != newest and read.version <= newest.version and read.changed <= newest.changed:
                raise _NotFollowed("lost", f"version {newest.version} was known, {read.version or 'none'} is there")
            progress = progress._replace(newest=read._replace(changed=min(read.changed, now)))
            self._calls.policies = _policies(self._calls.own_policies, policies)
            return progress._replace(followed=read, own=policies is None, head=head[0] if head else b"")
        except _NotFollowed as why:
            return progress._replace(failure=_reason(*why.args), head=b"refused")


def _reason(code: str, detail: str = "") -> dict[str, str]:
    return {"code": code, "detail": printable(detail, 200)} if detail else {"code": code}


def _read(text: bytes) -> tuple[_Change, Any]:
    """Reads what policies.lua stores; nothing is version 0, and no policies."""
    if not text:
        return _Change(), None
    try:
        item = json.loads(text.decode())
        if (item.get("format") or 1) > 1:
            raise _NotFollowed("newer")
        read = _Change(item["version"], item["changed"])
        if not all(type(n) is int and 0 < n < end for n, end in zip(read, (_VERSIONS, _TIMES))):
            raise ValueError
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        raise _NotFollowed("corrupt") from None
    return read, item.get("policies")


def _policies(own: Policies, item: Any) -> Policies:
    """Returns the policies that operators set; None: those of the process."""
    if item is None:
        return own
    try:
        policy = dict(_object(item))
        tiers = _object(policy.pop("tiers", None))
        return own.replaced_by(_policy(policy), {name: _policy(tier) for name, tier in tiers.items()})
    except (TypeError, ValueError) as error:
        raise _NotFollowed("invalid", str(error)) from None


def _object(item: Any) -> dict[str, Any]:
    """Returns an object of JSON; null is one without fields."""
    if item is not None and not isinstance(item, dict):
        raise TypeError(f"{item!r:.80} must be an object")
    return item or {}


def _policy(item: Any) -> Policy:
    """Reads a policy. A missing field has its default."""
    unknown = _object(item).keys() - _FIELDS
    if unknown:
        raise TypeError(f"the field {min(unknown)!r} is unknown")
    given = {name: value for name, value in _object(item).items() if value is not None}
    interval, mode = given.pop("reset_interval_ms", 0), given.pop("reset_mode", "")
    if type(interval) is not int or not 0 <= interval <= _LONGEST_INTERVAL:
        raise TypeError(f"reset_interval_ms must be a whole number of at most {_LONGEST_INTERVAL}")
    if mode not in list(_MODES):
        raise TypeError(f"the reset_mode {mode!r:.80} is unknown")
    if any(not isinstance(given.get(name, []), list) for name in ("thresholds", "loads")):
        raise TypeError("thresholds and loads must be lists")
    if interval:
        given["reset_interval"] = timedelta(milliseconds=interval)
    return Policy(reset_mode=_MODES[mode], **given)
