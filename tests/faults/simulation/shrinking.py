"""Makes a schedule that fails small, by leaving operations out for as long as it fails in the same way."""

import re
from collections.abc import Callable
from dataclasses import replace

from faults.drawing import Schedule
from faults.operations import Operation

Fails = Callable[[Schedule], bool]


def shrink(schedule: Schedule, fails: Fails) -> Schedule:
    """Leave out as many operations at once as possible, at last each by itself."""
    operations = schedule.operations
    size = len(operations)
    while size:
        kept = _without(operations, size, lambda left: fails(replace(schedule, operations=left)))
        # Whatever was left out may make another one superfluous.
        size = size // 2 if kept == operations or size > 1 else 1
        operations = kept
    return replace(schedule, operations=operations)


def _without(
    operations: tuple[Operation, ...], size: int, fails: Callable[[tuple[Operation, ...]], bool]
) -> tuple[Operation, ...]:
    start = 0
    while start < len(operations):
        left = operations[:start] + operations[start + size :]
        if fails(left):
            operations = left
        else:
            start += size
    return operations


def told(schedule: Schedule) -> str:
    """The schedule as Python that can be played again, an operation a line."""
    lines = [f"    {operation!r}," for operation in schedule.operations]
    text = "\n".join([f"{schedule.beginning!r}", "[", *lines, "]"])
    text = re.sub(r"datetime\.datetime\(2026, 1, 2, (\d+), (\d+), tzinfo=datetime\.timezone\.utc\)", _minute, text)
    return re.sub(r"<(\w+\.\w+): '[^']*'>", r"\1", text)


def _minute(found: re.Match[str]) -> str:
    return f"at({60 * int(found[1]) + int(found[2])})"
