"""Choose the steps that the matrix strikes: each once, in the first verb that reaches the same point in the same way."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from faults.processes.gate import Kind, Step

_FEW = 2
"""Occurrences of the same step outside of transactions that are struck: the first one, and one that comes after
another has had its effect."""

Named = tuple[str, Step]


def points(recorded: Mapping[str, Iterable[Named]]) -> dict[str, list[tuple[str, Kind]]]:
    """Return for each verb the names of the steps to strike at, and what each does.

    If transactions of several verbs begin alike, the first verb stands for all of them.
    """
    seen: set[tuple[str, ...]] = set()
    found: dict[str, list[tuple[str, Kind]]] = {}
    for verb, steps in recorded.items():
        found[verb] = []
        for unit in _units(steps):
            for (name, step), way in zip(unit, _ways(verb, unit), strict=True):
                if way not in seen:
                    seen.add(way)
                    found[verb].append((name, step.kind))
    return found


def _units(steps: Iterable[Named]) -> Iterator[list[Named]]:
    """Yield the transactions, and single steps outside of them."""
    unit: list[Named] = []
    for name, step in steps:
        unit.append((name, step))
        if step.kind is Kind.COMMIT or (len(unit) == 1 and step.kind is not Kind.STATEMENT):
            yield unit
            unit = []


def _ways(verb: str, unit: Sequence[Named]) -> list[tuple[str, ...]]:
    """Return how each of the steps is reached: by all that the transaction has sent before, with repetitions counted
    once."""
    [(name, step), *others] = unit
    if step.kind is Kind.END:
        return [(verb, name)]
    if not others:
        number = int(name.removeprefix(step.name).strip(" ()") or 1)
        return [(step.name, str(min(number, _FEW)))]
    sent = [step.name for _, step in unit]
    return [(*(base for base, _ in groupby(sent[:length])), sent[length]) for length in range(len(sent))]
