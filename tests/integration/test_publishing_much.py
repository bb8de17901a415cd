"""The reads of a publish grow in proportion to the staged rows and not with their square, although the planner has no statistics:

rows that were written a moment ago have not been analyzed.
"""

import pytest
from psycopg2.sql import SQL

from given_ledger.ledgers import claim, plan, start_streams
from tideline.sinks.postgres.column_types import Column
from tideline.sinks.postgres.insertion import StagedRows, insert_output
from tideline.sinks.postgres.target_table import Target, create_staging
from tideline.sinks.staging_tables import STAGING_SCHEMA

RECORDS = 20_000
TASK = 7
A_FEW = 10
"""How many times a publish may scan staging."""
COLUMNS = (Column(name="id", type_name="bigint", precision=None, scale=None, required=False),)
TARGET = Target(schema="ads", table="output", columns=COLUMNS, item=None)


@pytest.fixture
def attempt(ledger):
    """Stage rows, every fourth of which is a reject as well. The tables were analyzed when the attempt before it had done the same."""
    streams = start_streams(ledger, 50)
    batch_id = plan(ledger, dict.fromkeys(streams, (0, RECORDS // len(streams))))
    execute(
        ledger,
        "CREATE SCHEMA ads; CREATE TABLE ads.output (id bigint, kafka_topic_id uuid, kafka_partition integer, kafka_offset bigint,"
        " tideline_batch bigint, PRIMARY KEY (kafka_topic_id, kafka_partition, kafka_offset))",
    )
    stage(ledger, claim(ledger, batch_id), streams)
    execute(ledger, "ANALYZE")
    found = claim(ledger, batch_id)
    return found, stage(ledger, found, streams)


def stage(ledger, attempt, streams):
    staging = create_staging(ledger, TARGET, attempt)
    last = RECORDS // len(streams) - 1
    execute(
        ledger,
        f"INSERT INTO {STAGING_SCHEMA}.{staging} (id, kafka_offset, tideline_stream, tideline_task)"
        f" SELECT 1, o, s, {TASK} FROM unnest(ARRAY{streams}) s, generate_series(0, {last}) o",
    )
    execute(
        ledger,
        "INSERT INTO tideline.staged_reject (attempt_id, stream_id, kafka_offset, step, reason)"
        f" SELECT {attempt.attempt_id}, s, o, 'store', 'x' FROM unnest(ARRAY{streams}) s, generate_series(0, {last}, 4) o",
    )
    return staging


def execute(ledger, text):
    with ledger.transaction():
        ledger.run_sql(SQL(text), {})


def read(ledger, table):
    """Count the rows of a table that this transaction has read sequentially or through an index."""
    [row] = ledger.rows_of(
        SQL(
            "SELECT (seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint AS n FROM pg_stat_xact_all_tables WHERE relname = %(table)s"
        ),
        {"table": table},
    )
    return row["n"]


def test_publishing_looks_through_staging_a_few_times_and_not_once_for_each_reject(ledger, attempt):
    found, staging = attempt
    with ledger.transaction():
        written = insert_output(ledger, StagedRows(target=TARGET, attempt=found, table=staging, tasks={TASK: RECORDS}))
        assert sum(written.n_written.values()) == RECORDS * 3 // 4
        assert read(ledger, staging) <= A_FEW * RECORDS
        assert read(ledger, "staged_reject") <= A_FEW * RECORDS


def test_a_statement_whose_client_is_gone_does_not_keep_its_locks(ledger):
    """Without the check Postgres would notice only at its end, and until then the next try could not even claim the batch."""
    with ledger.transaction():
        assert ledger.rows_of(SQL("SHOW client_connection_check_interval"), {})[0][0] == "5s"


def test_nested_loops_are_allowed_again(ledger):
    with ledger.transaction():
        with ledger.without_nested_loops():
            assert ledger.rows_of(SQL("SHOW enable_nestloop"), {})[0][0] == "off"
        assert ledger.rows_of(SQL("SHOW enable_nestloop"), {})[0][0] == "on"
