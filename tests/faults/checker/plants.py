"""Statements that violate each law: reads plants.sql, and computes the offsets of the records that it names."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from faults.records import Fate, fate


@dataclass(frozen=True, slots=True)
class Plant:
    """The statements that cause one violation."""

    law: str
    name: str
    statements: str = field(repr=False)
    also: frozenset[str] = frozenset()
    """Other laws that the same statements violate."""

    def __str__(self) -> str:
        return f"{self.law}: {self.name}"


def plants() -> list[Plant]:
    """Return all plants, in order."""
    text = Path(__file__).with_name("plants.sql").read_text(encoding="utf-8")
    prepare, *rest = re.split(r"\n\n-- ([^:\n]+): (.+)\n(?:-- also: (.+)\n)?", text)
    return [
        Plant(law, name, prepare + "\n" + statements, frozenset(also.split(", ") if also else ()))
        for law, name, also, statements in zip(rest[::4], rest[1::4], rest[2::4], rest[3::4], strict=True)
    ]


def _first(incarnation: int, offsets: Iterable[int], like: Fate, *, partition: int = 0) -> int:
    return next(offset for offset in offsets if fate(incarnation, partition, offset) is like)


PLACES = {
    "good": _first(1, range(40, 50), Fate.GOOD),
    "filtered": _first(1, range(41, 49), Fate.FILTERED),
    "broken": _first(1, range(40, 50), Fate.BROKEN),
    "double": _first(1, range(28, 38), Fate.DOUBLE),
    "marker": _first(2, range(14, 20), Fate.MARKER),
    "planned": _first(2, range(20, 32), Fate.GOOD),
    "planned_marker": _first(2, range(20, 32), Fate.MARKER),
    "writing": _first(2, range(32, 44), Fate.GOOD),
    "failed": _first(2, range(44, 56), Fate.BROKEN),
    "marker_of_the_third": _first(2, range(10), Fate.MARKER, partition=2),
    "beyond_marker": _first(2, range(80, 90), Fate.MARKER),
}
"""Offsets by the kind of record at them."""
