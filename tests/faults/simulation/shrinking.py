"""Shrink a failing schedule: leave out operations as long as it still fails in the same way."""

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import product

from faults.operations import Fault, Go, Operation
from faults.schedules import Schedule

Operations = tuple[Operation, ...]
Fails = Callable[[Operations], bool]


def shrink(schedule: Schedule, fails: Callable[[Schedule], bool]) -> Schedule:
    """Return the schedule without as many operations as possible."""

    def still_fails(operations: Operations) -> bool:
        return fails(replace(schedule, operations=operations))

    operations = schedule.operations
    smaller: Operations | None = operations
    while smaller is not None:
        operations = _in_parts(smaller, still_fails)
        smaller = _readdressed(operations, still_fails)
    return replace(schedule, operations=operations)


def _in_parts(operations: Operations, fails: Fails) -> Operations:
    """Leave out many operations at once, then fewer. At the end leave out single operations until no more can be left
    out."""
    size = len(operations)
    while size:
        left = _without(operations, size, fails)
        size = 1 if size == 1 and left != operations else size // 2
        operations = left
    return operations


def _without(operations: Operations, size: int, fails: Fails) -> Operations:
    start = 0
    while start < len(operations):
        left = operations[:start] + operations[start + size :]
        if fails(left):
            operations = left
        else:
            start += size
    return operations


def _readdressed(operations: Operations, fails: Fails) -> Operations | None:
    """Leave out one operation and re-address another one: which process a number means depends on how many processes
    exist."""
    for gone, at in product(range(len(operations)), repeat=2):
        if gone != at and isinstance(moved := operations[at], Go | Fault):
            for process in (-1, 0, 1):
                changed = [*operations[:at], replace(moved, process=process), *operations[at + 1 :]]
                del changed[gone]
                if fails(tuple(changed)):
                    return tuple(changed)
    return None


def as_python(schedule: Schedule) -> str:
    """Return the schedule as Python code that can be played again, one operation a line."""
    lines = [f"    {operation!r}," for operation in schedule.operations]
    text = "\n".join([f"{schedule.beginning!r}", "[", *lines, "]"])
    text = re.sub(r"datetime\.datetime\(2026, 1, 2, (\d+), (\d+), tzinfo=datetime\.timezone\.utc\)", _minute, text)
    return re.sub(r"<(\w+\.\w+): '[^']*'>", r"\1", text)


def _minute(found: re.Match[str]) -> str:
    return f"at({60 * int(found[1]) + int(found[2])})"
