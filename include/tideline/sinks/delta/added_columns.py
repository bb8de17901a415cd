"""Add the columns that a Delta table lacks, in a commit of their own right before that of the batch that needs them.

The library changes columns and adds files in two commits, so both cannot be one. The law: only an attempt that may still
commit its batch adds columns, and an event names them before they are there. A crash in between leaves columns that are null in all
rows; the next attempt finds them. Files are added only to a table that has their columns, with their types.
"""

from collections.abc import Callable

import pyarrow as pa
from deltalake import DeltaTable

from tideline.errors import RetryableError
from tideline.sinks.delta import delta_log
from tideline.sinks.delta.column_types import delta_type, same_type
from tideline.sinks.delta.delta_log import Location, TakenError

Announce = Callable[[pa.Schema], None]
"""Is called with the columns that are about to be added."""


def lacking(columns: pa.Schema, fields: pa.Schema) -> pa.Schema:
    """Return the columns that a table gets for the fields that it has no columns for, in no spelling.

    Args:
        columns: Those of the table.
        fields: What the transform returns.
    """
    there = {name.lower() for name in columns.names}
    return pa.schema(
        [pa.field(field.name, delta_type(field.type)) for field in fields if field.name.lower() not in there]
    )


def add(location: Location, table: DeltaTable, columns: pa.Schema, announce: Announce | None) -> None:
    """Add those of `columns` that this version of the table lacks. Do nothing if it has all.

    Args:
        location: Where the table is.
        table: The version that was looked at.
        columns: Those of the attempt's files.
        announce: None if the declaration lets no batch add columns.

    Raises:
        TakenError: They were added, so there is a newer version; or the table has changed since it was loaded. Look again.
        RetryableError: The table has another column than the files of the attempt, or lacks one that may not be added.
        RefusedTableError: The table has a feature that is not kept, or the library refuses it. Nothing was changed.
        UnknownError: Something else went wrong. They may have been added.
    """
    there = pa.schema(table.schema())
    lacks = lacking(there, columns)
    for column in columns:
        found = there.field(column.name).type if column.name in there.names else None
        may_lack = announce is not None and column.name in lacks.names
        if not (may_lack if found is None else same_type(column.type, found)):
            raise RetryableError(
                f"{location.pipeline}: {location.uri} was altered since the attempt has looked at it: expected its column {column.name} with "
                f"type {column.type}, found {'no such column' if found is None else found}",
                next_step="run the task again: it looks at the table anew",
                entry="table-does-not-fit",
            )
    if announce is None or not lacks.names:
        return
    announce(lacks)
    delta_log.add_columns(table, lacks)
    raise TakenError(f"the columns {', '.join(lacks.names)} were added")
