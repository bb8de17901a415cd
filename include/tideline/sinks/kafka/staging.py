"""The staging table of an attempt, and the task that fills it. The task runs in the executors' Python."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
from psycopg2.sql import SQL, Composable, Identifier

from tideline.formats.encoder import UnencodableError
from tideline.ledger import staged
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger
from tideline.records.kafka_metadata import stream_ids
from tideline.records.record_steps import Account
from tideline.records.row_bisection import isolate
from tideline.records.task_sessions import TaskSession
from tideline.sinks.kafka.encoding import Records
from tideline.sinks.sink import StagingPlace, Winner
from tideline.sinks.staging_tables import STAGING_SCHEMA, staging_name
from tideline.statements import statement


def topic_query(name: str) -> SQL:
    """Return one of the sink's statements."""
    return SQL(statement("tideline.sinks.kafka", name))


def names(attempt: Attempt) -> dict[str, Composable]:
    """Return the name of an attempt's staging table for a statement."""
    return {"staging": Identifier(STAGING_SCHEMA, staging_name(attempt))}


def headers(records: Records, form: str) -> Composable:
    """Return the columns of the headers, each in this form, after those that every staging table has."""
    return SQL("").join(SQL(form).format(Identifier(f"header_{number}")) for number, _ in enumerate(records.headers))


def create(ledger: Ledger, attempt: Attempt, records: Records) -> None:
    """Create the attempt's staging table."""
    place = names(attempt)
    with ledger.transaction():
        ledger.run_sql(topic_query("create_staging").format(**place, headers=headers(records, ", {} bytea")), {})
        staged.let_stager_in(ledger, staging_name(attempt))


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStage:
    """Writes encoded rows to the attempt's staging table. Records with a row that cannot be sent become rejects."""

    place: StagingPlace
    table: str
    records: Records

    def store(self, tables: Iterable[pa.Table], recorder: Account, task: int) -> Winner:
        """COPY all tables. Return the id of the task and the number of rows that it has staged.

        Each COPY commits by itself. Rows of a task that fails carry the id of a task that never wins, so they are
        ignored.
        """
        n_rows = 0
        with TaskSession(self.place.ledger_url) as session:
            for table in tables:
                fitting, misfits = isolate(
                    table, lambda part: self._encoded(part, task), (UnencodableError, pa.ArrowInvalid), suspect=None
                )
                for misfit in misfits:
                    recorder.reject("store", misfit.row.column("kafka").combine_chunks(), [misfit.reason])
                for rows in fitting:
                    session.wake()
                    with session.connection.cursor() as cursor:
                        cursor.adbc_ingest(self.table, rows, mode="append", db_schema_name=STAGING_SCHEMA)
                    n_rows += len(rows)
        return Winner(task, n_rows)

    def _encoded(self, rows: pa.Table, task: int) -> pa.Table:
        kafka = rows.column("kafka").combine_chunks()
        columns: Mapping[str, pa.Array] = {
            "tideline_stream": stream_ids(kafka, self.place.streams),
            "kafka_offset": kafka.field("offset"),
            "tideline_task": pa.repeat(pa.scalar(task, pa.int64()), len(rows)),
            **self.records.encode(rows),
        }
        return pa.table(dict(columns))
