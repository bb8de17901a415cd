"""What is wanted of records, whatever schema they were written with, and how a schema compares with it."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import pyarrow as pa

from tideline.declaration.mistakes import shown
from tideline.declaration.source import Key, Value
from tideline.domain.columns import ColumnType
from tideline.domain.schemas import NoSchemas, Schema
from tideline.errors import FatalError
from tideline.formats.arrow_types import arrow_type
from tideline.formats.format import RawRecords, columns_of
from tideline.formats.json_format import JsonFormat
from tideline.formats.undeclared import refusal

REST = ""
"""The field of a struct that takes the fields of a record which no other field takes, as one JSON object. No schema has a field without a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """The declared columns: the reader's schema."""

    columns: Mapping[str, ColumnType]
    aliases: Mapping[str, tuple[str, ...]]
    """Which other names a column has in some schemas of writers, by column; the first that is there counts."""
    defaults: Mapping[str, pa.Array]
    """The value of a column that a writer's schema has not, as an array of one; without it the column is null."""
    refuses_undeclared: bool = False
    """Whether records whose schema has a field that no column takes are rejects."""
    rest: str | None = None
    """The column that holds the fields that no other takes, as one JSON object; None without one."""

    def named(self, fields: Iterable[str]) -> Mapping[str, str]:
        """Return which of a writer's fields stand under an alias, with their columns."""
        there = {*fields}
        return {
            found: column
            for column, others in self.aliases.items()
            if column not in there and (found := next((one for one in others if one in there), None))
        }

    def refusal(self, undeclared: Iterable[str]) -> str | None:
        """Return why records whose schema has these undeclared fields are rejects; None if they are none."""
        return refusal(undeclared) if self.refuses_undeclared else None

    def missing(self, column: str, length: int) -> pa.Array:
        """Return the values of a column for records whose schema has not its field."""
        if column in self.defaults:
            return self.defaults[column].take(pa.repeat(0, length))
        return pa.nulls(length, arrow_type(self.columns[column]))

    def compared(self, fields: Iterable[str]) -> "SchemaFit":
        """Compare the fields of a schema that can be read, in the names of the columns, with the declared columns."""
        there = [*fields]
        return SchemaFit(
            reason=None,
            undeclared=tuple(name for name in there if name not in self.columns),
            absent=tuple(name for name in self.columns if name not in there),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaFit:
    """What a schema is to the declared columns."""

    reason: str | None
    """Why no record of it can be read; None if they can."""
    undeclared: tuple[str, ...] = ()
    """Its fields that no column takes."""
    absent: tuple[str, ...] = ()
    """The columns that it has not."""


@runtime_checkable
class ComparesSchemas(Protocol):
    """A format whose records can be read only with the schemas that they name."""

    def compared(self, schema: Schema) -> SchemaFit:
        """Compare a schema with the declared columns."""


def declared_reader(section: Value | Key, folder: Path) -> Reader:
    """Return what a section of the declaration in `folder` wants.

    Raises:
        FatalError: A default does not fit its column.
    """
    defaults = {name: _default(folder, name, section) for name in section.defaults}
    return Reader(
        columns=columns_of(section),
        aliases=section.aliases,
        defaults=defaults,
        refuses_undeclared=section.unknown == "reject",
        rest=section.rest,
    )


def _default(folder: Path, name: str, section: Value | Key) -> pa.Array:
    """Return a declared default as an array of one. It is written as a value in JSON is."""
    text = json.dumps({name: section.defaults[name]}).encode()
    kind = columns_of(section)[name]
    records = pa.array([text], pa.binary())
    found = JsonFormat({name: kind}).decoder(NoSchemas())(RawRecords(part="value", keys=records, values=records))
    if found.rejected:
        raise FatalError(
            f"{shown(folder / 'pipeline.yaml')}: source.{type(section).__name__.lower()}.defaults.{name}: {found.rejected[0]}",
            next_step=f"write the default as a value of the type {kind} is written in JSON",
            entry="records-with-a-schema",
        )
    return found.table.column(name).combine_chunks()
