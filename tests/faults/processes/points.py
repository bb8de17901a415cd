"""Which steps of the verbs the matrix strikes: each once, in the first verb that comes to the same point in the same way."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from faults.processes.gate import Kind, Step

_FEW = 2
"""Of the same step between transactions: the first, and one that comes when another has had its effect."""

Named = tuple[str, Step]


def points(recorded: Mapping[str, Iterable[Named]]) -> dict[str, list[tuple[str, Kind]]]:
    """By verb, the names of the steps to strike at, and what each does. What transactions of several verbs begin with the first one stands for."""
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
    """Transactions, and steps outside of any."""
    unit: list[Named] = []
    for name, step in steps:
        unit.append((name, step))
        if step.kind is Kind.COMMIT or (len(unit) == 1 and step.kind is not Kind.STATEMENT):
            yield unit
            unit = []


def _ways(verb: str, unit: Sequence[Named]) -> list[tuple[str, ...]]:
    """How each of the steps is come to: by all that the transaction has sent before, however often it has repeated itself."""
    [(name, step), *others] = unit
    if step.kind is Kind.END:
        return [(verb, name)]
    if not others:
        number = int(name.removeprefix(step.name).strip(" ()") or 1)
        return [(step.name, str(min(number, _FEW)))]
    sent = [step.name for _, step in unit]
    return [(*(base for base, _ in groupby(sent[:length])), sent[length]) for length in range(len(sent))]
