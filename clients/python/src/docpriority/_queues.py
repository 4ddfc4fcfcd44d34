"""Translates levels to queues' priorities, like the Go module's package queue."""

from __future__ import annotations

from collections.abc import Iterable

_FLOOD = 6  # the level after the last default load


def celery_priority(level: int, last: int, steps: Iterable[int]) -> int:
    """Returns a task's priority for Celery on Redis: one of the ``priority_steps``, smallest first. kombu accepts none
    above 9."""
    usable = sorted(step for step in steps if 0 <= step <= 9) or [0]
    return usable[_class_of(level, last, len(usable)) - 1]


def rabbitmq_priority(level: int, last: int, max_priority: int) -> int:
    """Returns a message's priority for a classic queue with an x-max-priority: the largest is served first."""
    return max_priority - (_class_of(level, last, max_priority + 1) - 1)


def rabbitmq_quorum_priority(level: int, last: int) -> int:
    """Returns a message's priority for a quorum queue: 4 for the last level, as for a message without a priority, and
    31 at most."""
    normal, highest = 4, 31
    classes = max(1, min(last, highest - normal + 1))
    return normal + classes - _class_of(level, last, classes)


def _class_of(level: int, last: int, classes: int) -> int:
    """Folds levels into fewer classes, 1 being served first: floods, which take turns from level 6 on, share the
    classes after the fifth, then the last class, and the first levels share the first."""
    last, classes = max(last, 1), max(classes, 1)
    level = max(1, min(level, last))
    if classes >= last:
        return 1 if last == 1 else 1 + (level - 1) * (classes - 1) // (last - 1)
    if classes <= _FLOOD:
        return max(1, classes - min(last, _FLOOD) + min(level, _FLOOD))
    if level < _FLOOD:
        return level
    return _FLOOD + (level - _FLOOD) * (classes - _FLOOD + 1) // (last - _FLOOD + 1)
