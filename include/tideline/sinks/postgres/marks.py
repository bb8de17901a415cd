"""The table of deleted keys of an upsert table: the newest tombstone of each key."""

from psycopg2.sql import SQL

from tideline.errors import FatalError
from tideline.ledger.connection import Ledger
from tideline.sinks.postgres import fitting
from tideline.sinks.postgres.target_table import Target, columns_of, quoted, sink_sql


def prepare(ledger: Ledger, target: Target) -> None:
    """Create the table of deleted keys if it does not exist, and check that it has the key of the target.

    Raises:
        FatalError: It has another key. Its tombstones would no longer be found.
    """
    with ledger.transaction():
        ledger.rows_of(sink_sql("lock_creation"), {})
        place = {"schema": target.schema, "table": target.marks_table}
        wanted = {column.name: column.type_name for column in target.key_columns}
        found = columns_of(ledger, place)
        if not found:
            key = SQL(", ").join(quoted(name) for name in wanted)
            names = {"marks": target.marks, "target": target.identifier, "key": key}
            ledger.run_sql(sink_sql("create_marks").format(**names), {})
        elif {name: column.type_name for name, column in found.items() if name not in fitting.COORDINATES} != wanted:
            raise FatalError(
                f"{target.schema}.{target.marks_table}: expected the columns of sink.key ({', '.join(wanted)}) and the "
                f"coordinates, found {', '.join(found)}",
                next_step="if the key has changed, load the table anew: drop both tables, and load everything with a replay; nothing was read",
                entry="table-does-not-fit",
            )
