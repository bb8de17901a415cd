"""Which steps of the verbs the matrix strikes: each transaction once, in the first verb that sends it, and each step between transactions."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from faults.processes.gate import Kind, Step

_FEW = 2
"""Of the same step between transactions: the first, and one that comes when another has had its effect."""

Named = tuple[str, Step]


def points(recorded: Mapping[str, Iterable[Named]]) -> dict[str, list[tuple[str, Kind]]]:
    """By verb, the names of the steps to strike at, and what each does. What several verbs have in common the first one stands for."""
    seen: set[tuple[str, ...]] = set()
    found: dict[str, list[tuple[str, Kind]]] = {}
    for verb, steps in recorded.items():
        found[verb] = []
        for unit in _units(steps):
            key = _key(verb, unit)
            if key not in seen:
                seen.add(key)
                found[verb] += [(name, step.kind) for name, step in unit]
    return found


def _units(steps: Iterable[Named]) -> Iterator[list[Named]]:
    """Transactions, and steps outside of any."""
    unit: list[Named] = []
    for name, step in steps:
        unit.append((name, step))
        if step.kind is Kind.COMMIT or (len(unit) == 1 and step.kind is not Kind.STATEMENT):
            yield unit
            unit = []


def _key(verb: str, unit: list[Named]) -> tuple[str, ...]:
    """What makes two of them the same: what they send, however often they repeat it."""
    [(name, step), *others] = unit
    if step.kind is Kind.END:
        return (verb, name)
    if not others:
        number = int(name.removeprefix(step.name).strip(" ()") or 1)
        return (step.name, str(min(number, _FEW)))
    return tuple(base for base, _ in groupby(step.name for _, step in unit))
