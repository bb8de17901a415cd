"""The reference tables of a processor: read once for each batch, and given to every task, so that all of them see the same rows."""

import re
from collections.abc import Mapping

import pyarrow as pa

from tideline.processors import Processor

_MOST_BYTES = 64 << 20
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}\.[a-z_][a-z0-9_]{0,62}")


def declared(processor: Processor) -> dict[str, str]:
    """Return the tables that a processor declares: `schema.table` by the name that the processor has for it.

    Raises:
        TypeError: They are no mapping.
        ValueError: They are declared in another form, or the processor does not take them.
    """
    found = processor.tables
    if not isinstance(found, Mapping):
        raise TypeError(f"`tables`: expected names with tables, found {type(found).__name__}")
    for name, table in found.items():
        if not (isinstance(name, str) and isinstance(table, str) and _NAME.fullmatch(table)):
            raise ValueError(f"`tables`: expected schema.table in lower case for {name!r}, found {table!r}")
    if found and type(processor).open is Processor.open:
        raise ValueError("`tables`: expected a method `open(self, tables)` beside them, found none")
    return dict(found)


def read(pipeline: str, tables: Mapping[str, str]) -> dict[str, pa.Table]:
    """Return the rows of declared tables from the ledger's database, as pyarrow tables, by the processor's names.

    Raises:
        FatalError: A table does not exist, may not be read or is too large.
        RetryableError: The database did not answer.
    """
    if not tables:
        return {}
    # Here: an author's test gives the rows, and needs no driver of a database.
    from tideline.records import database_tables  # noqa: PLC0415

    found = database_tables.read(sorted({*tables.values()}), reader=pipeline, most_bytes=_MOST_BYTES)
    return {name: found[table] for name, table in tables.items()}
