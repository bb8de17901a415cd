"""Which features of a Delta table a commit of this project keeps. The one list: of loads, fences, replays, upkeep and `tideline doctor`.

The law: no commit goes behind a version of the table with a feature that is not kept. Without it, a merge of files with deletion vectors brings
deleted rows back, and one of files with renamed columns empties them.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from deltalake import DeltaTable

_READER, _WRITER = 3, 7
"""The newest versions of the protocol that are known: from them on each feature has a name."""
_HARMLESS = {
    "appendOnly",
    "invariants",
    "timestampNtz",
    "vacuumProtocolCheck",
    "changeDataFeed",
    "checkConstraints",
    "generatedColumns",
}
"""Features that a table may name. Those of them that need anything of a writer are refused where they are in use."""
_DROPPED_LAST = {"domainMetadata": "domainMetadata", "checkpointProtection": "checkpointProtection TRUNCATE HISTORY"}
"""Features that stay when those are dropped that have brought them, as Spark's `DROP FEATURE` takes them."""
_UNUSED = {
    "delta.columnMapping.mode": ("none", "column mapping", "DROP FEATURE columnMapping"),
    "delta.enableDeletionVectors": ("false", "deletion vectors", None),
    "delta.enableRowTracking": ("false", "row tracking", None),
    "delta.enableChangeDataFeed": ("false", "a change data feed", None),
    "delta.enableInCommitTimestamps": ("false", "in-commit timestamps", "DROP FEATURE inCommitTimestamp"),
    "delta.setTransactionRetentionDuration": (
        None,
        "receipts of batches that expire (delta.setTransactionRetentionDuration)",
        "UNSET TBLPROPERTIES ('delta.setTransactionRetentionDuration')",
    ),
}
"""Properties: the value with which they are not in use, what they stand for, and how a table loses them if not by that value."""
_SWITCH = "delta.enable"
_HARMLESS_SWITCHES = {"delta.enableExpiredLogCleanup", "delta.enableFullRetentionRollback"}
_CONSTRAINT = "delta.constraints."
_COLUMN = {
    "delta.generationExpression": "a generated column",
    "delta.identity.": "an identity column",
    "delta.invariants": "an invariant",
    "delta.columnMapping.": "column mapping",
    "delta.typeChanges": "a type that was changed",
    "__CHAR_VARCHAR_TYPE_STRING": "CHAR or VARCHAR, a limited length",
}
"""Beginnings of what a column's metadata may hold, and what they stand for."""


class Unkept(NamedTuple):
    """A feature of a table that a commit would break."""

    what: str
    undo: str | None
    """The end of the `ALTER TABLE` of Spark that takes it away. None if there is none."""


def unkept(table: DeltaTable, *, replaces: bool = False) -> list[Unkept]:
    """Return what a commit behind the loaded version would break.

    Args:
        table: The table, as it was loaded.
        replaces: Whether the commit removes rows.
    """
    settings = table.metadata().configuration
    found = [*_properties(settings), *_columns(table), *_protocol(table)]
    if replaces and settings.get("delta.appendOnly") == "true":
        found.append(Unkept("delta.appendOnly: a replay replaces rows", _set("delta.appendOnly", "false")))
    return [*dict.fromkeys(found)]  # several keys of a column may stand for one feature


def said(found: Iterable[Unkept]) -> str:
    """Return what is not kept, for a message."""
    return "; ".join(one.what for one in found)


def undoing(uri: str, found: Iterable[Unkept]) -> str:
    """Return the statements that take the features away, for a message: each once, in an order in which Spark accepts them."""
    ends = dict.fromkeys(one.undo for one in found if one.undo)
    return (
        "; ".join(f"ALTER TABLE delta.`{uri}` {end}" for end in ends) or "none does: move the pipeline to a new table"
    )


def _protocol(table: DeltaTable) -> Iterator[Unkept]:
    protocol = table.protocol()
    if protocol.min_reader_version > _READER or protocol.min_writer_version > _WRITER:
        versions = f"{protocol.min_reader_version} and {protocol.min_writer_version}"
        yield Unkept(f"the protocol's versions {versions} are not known", None)
    named = {*(protocol.writer_features or ()), *(protocol.reader_features or ())} - _HARMLESS
    for name in sorted(named, key=lambda name: (name in _DROPPED_LAST, name)):
        yield Unkept(f"table feature {name} is not supported", f"DROP FEATURE {_DROPPED_LAST.get(name, name)}")


def _properties(settings: dict[str, str]) -> Iterator[Unkept]:
    for name, value in sorted(settings.items()):
        if name in _UNUSED:
            unused, what, undo = _UNUSED[name]
            if value != unused:
                yield Unkept(f"{what} is not supported", undo or _set(name, str(unused)))
        elif name.startswith(_SWITCH) and name not in _HARMLESS_SWITCHES and value != "false":
            yield Unkept(f"{name} is not supported", _set(name, "false"))
        elif name.startswith(_CONSTRAINT):
            constraint = name.removeprefix(_CONSTRAINT)
            yield Unkept(f"CHECK constraint {constraint} is not supported", f"DROP CONSTRAINT `{constraint}`")


def _set(name: str, value: str) -> str:
    return f"SET TBLPROPERTIES ('{name}' = '{value}')"


def _columns(table: DeltaTable) -> Iterator[Unkept]:
    for name, metadata in _fields("", table.schema().fields):
        for key in sorted(metadata):
            what = next((what for begin, what in _COLUMN.items() if key.startswith(begin)), None)
            if what is None and key.startswith("delta."):
                what = key
            if what is not None:
                yield Unkept(f"{name}: {what} is not supported", _undo_column(name, key))


def _undo_column(name: str, key: str) -> str | None:
    if key.startswith("delta.columnMapping."):
        return "DROP FEATURE columnMapping"
    if key.startswith("delta.typeChanges"):
        return "DROP FEATURE typeWidening"
    return f"ALTER COLUMN {name} TYPE STRING" if key.startswith("__CHAR") else None


def _fields(above: str, fields: Iterable[Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the metadata of each column, and of each field within one."""
    for field in fields:
        name = f"{above}{field.name}"
        yield name, field.metadata
        yield from _within(f"{name}.", field.type)


def _within(above: str, kind: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    if hasattr(kind, "fields"):
        yield from _fields(above, kind.fields)
    for part in ("element_type", "key_type", "value_type"):
        if hasattr(kind, part):
            yield from _within(above, getattr(kind, part))
