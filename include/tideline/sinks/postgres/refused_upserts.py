"""Find the records of an upsert batch that the target refuses. Runs in a publishing transaction that is rolled back.

First the newest records are tried, which are those that the batch would write. Where one is refused, an older record of
its key may be the newest one that the table accepts. So all other records of these keys are tried next, and no record of
another key: what the table never gets to see is not refused.
"""

from collections.abc import Callable, Mapping
from typing import Any

from psycopg2.sql import Composable

from tideline.ledger.connection import Ledger
from tideline.sinks.postgres import upserting
from tideline.sinks.postgres.insertion import StagedRows, check_now
from tideline.sinks.postgres.target_table import sink_sql
from tideline.sinks.sink import Refused

Try = Callable[[Mapping[str, Composable]], list[Refused]]

_REPEATED = "the transform gives two rows with the same key for this record"


def find(ledger: Ledger, staged: StagedRows, trial: Mapping[str, Composable], try_records: Try) -> list[Refused]:
    """Return the records that the target refuses.

    Args:
        ledger: The session, in the transaction.
        staged: What the attempt has staged.
        trial: More values of {placeholders}: the tables of a trial.
        try_records: Tries the records of a trial one after the other, and returns the refused ones.

    Raises:
        FatalError: Records of a key cannot be compared, or the target holds a row of another writer.
    """
    upserting.begin(ledger, staged)
    of_table = {**upserting.names(staged), **trial}
    if repeated := ledger.rows_of(sink_sql("list_repeated").format(**of_table), staged.bound):
        return [Refused(row["stream_id"], row["kafka_offset"], _REPEATED) for row in repeated]
    if staged.target.deletes:
        upserting.delete(ledger, staged)
    check_now(ledger, staged.target.deferred)
    refused = _tried(ledger, staged, of_table, try_records, every_record=False)
    if refused:
        ledger.run_sql(sink_sql("keep_refused_keys").format(**of_table), {})
        for table in ("newest", "trial", "records"):
            ledger.run_sql(sink_sql("drop_table").format(table=of_table[table]), {})
        refused += _tried(ledger, staged, of_table, try_records, every_record=True)
    return sorted(refused)


def _tried(
    ledger: Ledger, staged: StagedRows, of_table: Mapping[str, Any], try_records: Try, *, every_record: bool
) -> list[Refused]:
    upserting.gather(ledger, staged, every_record=every_record)
    ledger.run_sql(sink_sql("create_trial").format(**of_table), {})
    ledger.run_sql(sink_sql("fill_trial").format(**of_table), {})
    return try_records(of_table)
