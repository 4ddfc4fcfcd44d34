"""The possible outcomes of a call without a result."""

from __future__ import annotations


class PriorityError(Exception):
    """The base of the three classes. ``__cause__`` has the reason, if any."""


class NotCountedError(PriorityError):
    """Definitely not counted, now or later: the call may be made again."""


class OutcomeUnknownError(PriorityError):
    """It may have been counted, or may be yet. Go on with a default level.

    ``submit``, ``done`` and ``peek`` may be called again; ``next`` may not, because it could count twice.
    """


class CorruptError(PriorityError):
    """A key of the customer, which the message names, holds something else, and was left as it is. ``reset`` removes
    what it holds."""
