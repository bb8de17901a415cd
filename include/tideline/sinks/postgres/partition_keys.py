"""Check the key of a partitioned output table: coordinates, the declared item if any, and behind them the columns that it is partitioned by."""

from collections.abc import Mapping
from typing import Any

from psycopg2.sql import SQL, Composable

from tideline.errors import FatalError
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger
from tideline.sinks.postgres.fitting import COORDINATES, STAGED_STREAM
from tideline.sinks.postgres.target_table import Target, quoted, sink_sql


def check_distinct(
    ledger: Ledger, target: Target, attempt: Attempt, names: Mapping[str, Composable], bound: Mapping[str, Any]
) -> None:
    """Refuse two staged rows of one record that the table's key would accept, because they lie in different partitions.

    Raises:
        FatalError: There are such rows.
    """
    if not target.partitioned_by:
        return
    columns = (STAGED_STREAM, COORDINATES[2], *([target.item] if target.item else []))
    query = sink_sql("list_doubled").format(**names, key=SQL(", ").join(map(quoted, columns)))
    if rows := ledger.rows_of(query, bound):
        raise FatalError(
            f"{attempt}: {target.schema}.{target.table} refuses the output: the transform gives several rows for the record at offset "
            f"{rows[0]['kafka_offset']} of stream {rows[0]['tideline_stream']}, and only their partition distinguishes them",
            next_step="declare sink.item with a column that distinguishes the rows of one record, or let transform.py give one row for each record",
            entry="table-refuses-rows",
        )
