"""Find the fields of records that no column takes. They are read over, so that what vanishes is at least named and counted."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tideline.domain.columns import ArrayType, ColumnType, StructType

MOST = 100
"""The most names that are kept of a batch of records: a producer may make a name of each value."""
_LONGEST = 200
"""The most characters of a name."""


class Undeclared(NamedTuple):
    """How many records have a field that is not declared."""

    n_records: int
    first: int
    """The position of the first of them in its batch."""


def cleaned(name: str) -> str:
    """Return a name as it can be kept and shown: not empty, on one line, and not of any length. PostgreSQL cannot store U+0000."""
    if not name:
        return '""'
    text = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in name[:_LONGEST])
    return text if len(name) <= _LONGEST else f"{text}…"


def together(counts: Iterable[tuple[str, Undeclared]]) -> dict[str, Undeclared]:
    """Return what was counted of each name: its records are added, and the first of them is the first of all. At most the `MOST` common names."""
    found: dict[str, Undeclared] = {}
    for name, one in counts:
        before = found.get(name)
        found[name] = (
            one if before is None else Undeclared(before.n_records + one.n_records, min(before.first, one.first))
        )
    return dict(sorted(found.items(), key=lambda item: (-item[1].n_records, item[0]))[:MOST])


def of_schemas(groups: Iterable[tuple[npt.NDArray[np.int64], Iterable[str]]]) -> dict[str, Undeclared]:
    """Return what is counted of the fields of schemas: a record has those of its schema, whether it gives them a value or not.

    Args:
        groups: The positions of the records of each schema, and the names of its fields that no column takes.
    """
    return together(
        (cleaned(name), Undeclared(len(rows), int(rows.min()))) for rows, names in groups if len(rows) for name in names
    )


def refusal(names: Iterable[str]) -> str | None:
    """Return why a record with these undeclared fields is a reject where the declaration says so; None without any."""
    found = [cleaned(name) for name in names]
    return f"fields that are not declared, as unknown: reject says: {', '.join(found)}" if found else None


@dataclass(slots=True, kw_only=True)
class SameKeys:
    """How many objects have the same keys in the same order. Objects of one producer mostly do, and are counted together."""

    n_records: int = 0
    first: int
    """The position of the first of them in its batch."""
    has_others: bool
    """Whether a key is that of no column."""


class ObjectFields:
    """Finds the fields of JSON objects that no column takes, at any depth of the declared structs.

    Args:
        columns: The declared columns.
    """

    def __init__(self, columns: Mapping[str, ColumnType]) -> None:
        self._names = frozenset(columns)
        self._nested = [(name, walk) for name, kind in columns.items() if (walk := _walk(kind, name))]
        self.has_structs = bool(self._nested)
        """Whether objects have to be looked into, besides that their shapes are counted."""
        self._shapes: dict[tuple[str, ...], SameKeys] = {}
        self._paths: list[tuple[str, Undeclared]] = []

    def of(self, value: Mapping[str, object]) -> list[str]:
        """Return the fields of one object."""
        found: list[str] = []
        for name, walk in self._nested:
            walk(value.get(name), found)
        return [*(name for name in value if name not in self._names), *dict.fromkeys(found)]

    def shape(self, keys: tuple[str, ...], position: int) -> "SameKeys":
        """Return the count of the objects with these keys at their top, the first of them at this position."""
        found = self._shapes.get(keys)
        if found is None:
            found = SameKeys(first=position, has_others=not self._names.issuperset(keys))
            self._shapes[keys] = found
        return found

    def look_into(self, value: Mapping[str, object], position: int) -> None:
        """Count the fields of the structs of one object."""
        found: list[str] = []
        for name, walk in self._nested:
            walk(value.get(name), found)
        if found:
            self._paths += [(path, Undeclared(1, position)) for path in dict.fromkeys(found)]

    def counted(self) -> dict[str, Undeclared]:
        """Return what was counted since the last call."""
        counts = [
            (cleaned(name), Undeclared(shape.n_records, shape.first))
            for keys, shape in self._shapes.items()
            for name in keys
            if name not in self._names
        ]
        counts += [(cleaned(path), one) for path, one in self._paths]
        self._shapes, self._paths = {}, []
        return together(counts)


Walk = Callable[[object, list[str]], None]
"""Adds the paths of a value's undeclared fields to a list."""


def _walk(kind: ColumnType, path: str) -> Walk | None:
    """Return what looks at the values of a type; None if they have no fields at any depth."""
    if isinstance(kind, ArrayType):
        inner = _walk(kind.element, f"{path}[]")
        return _of_items(inner) if inner else None
    return _of_struct(kind, path) if isinstance(kind, StructType) else None


def _of_items(inner: Walk) -> Walk:
    def walk(value: object, found: list[str]) -> None:
        if type(value) is list:
            for one in value:
                inner(one, found)

    return walk


def _of_struct(kind: StructType, path: str) -> Walk:
    names = {name for name, _ in kind.fields}
    has_all = names.issuperset
    nested = [(name, inner) for name, one in kind.fields if (inner := _walk(one, f"{path}.{name}"))]

    def walk(value: object, found: list[str]) -> None:
        if type(value) is not dict:
            return
        if not has_all(value):
            found += [f"{path}.{name}" for name in value if name not in names]
        for name, inner in nested:
            inner(value.get(name), found)

    return walk
