"""What a change of Debezium is, however it is written: its kinds, why some are no row, and what stands beside the rows."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tideline.domain.columns import ColumnType, SimpleType, StructType
from tideline.formats.arrow_types import arrow_type
from tideline.formats.format import DecodedDeletions

LEAVES_A_ROW = ("c", "u", "r")
"""It was created, updated, or read by a snapshot."""
DELETES = "d"
_SNAPSHOT = "r"
_OTHERS = {
    None: "expected a change with op; records without one, as ExtractNewRecordState makes them, are of the format json or avro",
    "t": "the table was truncated (op t): the rows that it had are still in the output",
    "m": "a message of an application (op m) is no change of a row",
}


def no_row(op: object) -> str:
    """Return why a change of a kind that neither leaves nor deletes a row, or that lacks the row, is a reject."""
    if op in LEAVES_A_ROW:
        return f"expected an object in after: the row that the change (op {op}) leaves"
    return _OTHERS.get(op if isinstance(op, str | None) else "", f"expected op c, u, r or d, found {op!r}")


def untold(name: str) -> str:
    """Return why a change is a reject that does not hold the value of a column."""
    return f"{name}: it was not changed and stands elsewhere (TOAST), so the record does not hold it: set REPLICA IDENTITY FULL"


def with_tombstones(positions: pa.Int64Array, said: pa.Table, tombstones: Sequence[int]) -> DecodedDeletions:
    """Return deletions together with tombstones, which say nothing.

    Args:
        positions: Those of the deletions, ascending.
        said: What they say, in the same order.
        tombstones: The positions of the others, ascending.
    """
    every = pa.concat_arrays([positions, pa.array(tombstones, pa.int64())])
    order = pc.sort_indices(every)
    if said.column_names:  # without columns it has no rows
        nulls = pa.table({one.name: pa.nulls(len(tombstones), one.type) for one in said.schema})
        said = pa.concat_tables([said, nulls]).take(order)
    return DecodedDeletions(positions=every.take(order), table=said)


class Beside:
    """What stands beside the rows and becomes columns.

    A row that a snapshot has read may have no place in the log of the database. Then it gets the first one, before all changes.

    Args:
        envelope: The types by the paths, such as `source.lsn`.
    """

    def __init__(self, envelope: Mapping[str, ColumnType]) -> None:
        self.columns = {path.replace(".", "_"): kind for path, kind in envelope.items()}
        """Their types by the names of the columns."""
        self._paths = {path.replace(".", "_"): path.split(".") for path in envelope}
        self._first = {name: _lowest(kind) for name, kind in self.columns.items() if self._paths[name][0] == "source"}

    def of_object(self, change: Mapping[str, Any]) -> dict[str, Any]:
        """Return the columns of a change in JSON."""
        found = {}
        for name, path in self._paths.items():
            value: Any = change
            for part in path:
                value = value.get(part) if isinstance(value, dict) else None
            found[name] = self._first.get(name) if value is None and change.get("op") == _SNAPSHOT else value
        return found

    def of_table(self, changes: pa.Table) -> pa.Table:
        """Return the columns of changes, which are structs as `tree` says."""
        is_read = pc.equal(changes.column("op"), _SNAPSHOT)
        found = {}
        for name, (first, *rest) in self._paths.items():
            values = changes.column(first)
            for part in rest:
                values = pc.struct_field(values, part)
            if self._first.get(name) is not None:
                lowest = pa.scalar(self._first[name], values.type)
                values = pc.if_else(pc.and_(is_read, values.is_null()), lowest, values)
            found[name] = values
        return pa.table(found, schema=pa.schema([(name, arrow_type(kind)) for name, kind in self.columns.items()]))

    def tree(self) -> dict[str, ColumnType]:
        """Return the types of the fields of a change that hold all this."""
        return dict(_fields([(path, self.columns[name]) for name, path in self._paths.items()]))


def _fields(leaves: list[tuple[list[str], ColumnType]]) -> list[tuple[str, ColumnType]]:
    found: dict[str, list[tuple[list[str], ColumnType]]] = {}
    for (first, *rest), kind in leaves:
        found.setdefault(first, []).append((rest, kind))
    return [
        (name, below[0][1] if not below[0][0] else StructType(fields=tuple(_fields(below))))
        for name, below in found.items()
    ]


def _lowest(kind: ColumnType) -> object:
    match kind:
        case SimpleType(name="string"):
            return ""
        case SimpleType(name="smallint" | "int" | "bigint"):
            return 0
        case _:
            return None
