"""No query of the ledger scans a whole table that grows with the history: each uses an index.

The plans are Postgres's own, for a ledger with a long history. Add the parameters of a new query to `query_parameters.py`.
"""

import re
from collections.abc import Iterator
from string import Formatter
from uuid import UUID

import pytest
from psycopg2.sql import SQL, Composable

import large_ledger
from given_ledger import ledgers
from given_ledger.ledgers import PIPELINE
from given_ledger.query_parameters import BOUND, FILLED, OTHER_NAMES, OTHERWISE
from tideline.domain.states import BatchKind
from tideline.ledger import attempts
from tideline.ledger.connection import Ledger
from tideline.ledger.reservations import Run
from tideline.statements import statements

GROWING = {
    "attempt",
    "attempt_field",
    "attempt_schema",
    "batch",
    "batch_range",
    "coverage",
    "event",
    "intent",
    "letters",
    "outbox",
    "redrive",
    "reject",
    "run_batch",
    "staged_count",
    "staged_redrive",
    "staged_reject",
    "state",
    "state_batch",
    "state_undo",
}
READS_EVERYTHING = {
    "list_rejects_to_redrive",
    "view_cells",
    "view_coverage",
    "view_miscounts",
    "view_reject_miscounts",
    "view_reject_reasons",
}
"""Queries for a person who asks about everything; each says so."""
PACKAGES = (
    "ledger",
    "records",
    "sinks",
    "sinks.delta",
    "sinks.kafka",
    "sinks.postgres",
    "spark_jobs",
    "spark_jobs.readers",
)
STATEMENTS = [pair for package in PACKAGES for pair in statements(f"tideline.{package}").items()]
"""The name of each statement, with its text."""
SHORT = {
    "batch_given_up",
    "batch_of_kind",
    "batch_open",
    "batch_range_replaying",
    "coverage_hole",
    "letters_owed",
    "one_open_replay",
    "outbox_waiting",
    "state_batch_kept",
}
"""Indexes that contain few rows of large tables."""
PLANNED = re.compile(r"(WITH|SELECT|INSERT|UPDATE|DELETE)\b")


@pytest.fixture(scope="module")
def large(postgres, ledger_template) -> Iterator[Ledger]:
    """Create a long history, and at its end a batch in each state and one of each kind."""
    with ledgers.copy_of(postgres, ledger_template) as url, Ledger(url, actor="test") as ledger:
        large_ledger.fill(ledger, PIPELINE, batches=10_000, partitions=18, topic_id=str(UUID(int=7)))
        _go_on(ledger)
        yield ledger


def _go_on(ledger: Ledger) -> None:
    with ledger.connection as connection, connection.cursor() as cursor:
        cursor.execute("SELECT stream_id, next_offset FROM tideline.stream ORDER BY stream_id")
        heads = dict(cursor.fetchall())
        ahead = dict(list(heads.items())[:4])
        cursor.execute(
            "ALTER TABLE tideline.staged_count DROP CONSTRAINT counted_once"
        )  # half a millisecond for each row
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(
            "INSERT INTO tideline.reject (stream_id, kafka_offset, batch_id, attempt_id, step, reason)"
            " SELECT stream_id, kafka_offset + n, batch_id, attempt_id, step, reason FROM tideline.reject, generate_series(1, 9) AS n"
        )
        cursor.execute("INSERT INTO tideline.redrive SELECT batch_id, stream_id, kafka_offset FROM tideline.reject")
        cursor.execute(
            "INSERT INTO tideline.intent SELECT attempt_id, batch_id, 'a lake', 1, '[]', '{}', '{}', '{}', false"
            " FROM tideline.attempt WHERE attempt_id < 9000"
        )
        cursor.execute(
            "INSERT INTO tideline.state_batch SELECT batch_id, pipeline, batch_id, 'v1', 9, 0,"
            " CASE WHEN batch_id > 9500 THEN 'kept' ELSE 'pruned' END FROM tideline.batch WHERE batch_id < 10000;"
            " INSERT INTO tideline.state SELECT CASE WHEN n %% 9 = 0 THEN %(name)s ELSE 'another' END, n::text, 3, '{}', now(), n, 9990"
            " FROM generate_series(1, 40000) AS n;"
            " INSERT INTO tideline.state_undo SELECT 9500 + n %% 490, n::text, true, 3, '{}', now(), n, 9400 FROM generate_series(1, 40000) AS n;"
            " INSERT INTO tideline.state_position SELECT stream_id, 'another', 5560, now(), 10000, 9999 FROM tideline.stream;"
            " INSERT INTO tideline.state_position_undo SELECT 9999, stream_id, 5550, now(), 9998 FROM tideline.stream",
            {"name": PIPELINE},
        )
        cursor.execute(
            "INSERT INTO tideline.schema (schema_hash, kind, text)"
            " SELECT sha256(convert_to('AVRO' || chr(30) || n, 'UTF8')), 'AVRO', n::text FROM generate_series(1, 9) AS n;"
            " INSERT INTO tideline.registered_schema SELECT %(name)s, 'default', text::int, schema_hash FROM tideline.schema;"
            " INSERT INTO tideline.attempt_schema"
            " SELECT attempt_id, 'value', n, %(name)s, 'default' FROM tideline.attempt, generate_series(1, 2) AS n;"
            " INSERT INTO tideline.attempt_field"
            " SELECT attempt_id, 'value', n::text, 1, 1, 0, '{1:0}' FROM tideline.attempt, generate_series(1, 2) AS n",
            {"name": PIPELINE},
        )
        cursor.execute(
            "INSERT INTO tideline.letters SELECT batch_id, pipeline, now(), now() FROM tideline.batch WHERE batch_id < 9000"
        )
    planned = [
        ledgers.plan(ledger, {stream_id: (head, head + 10)}, run=Run(dag_id=PIPELINE, run_id=f"now__{stream_id}"))
        for stream_id, head in ahead.items()
    ]
    ledgers.write(ledger, planned[0])
    attempts.fail(ledger, ledgers.claim(ledger, planned[1]), "a problem")
    attempt = ledgers.claim(ledger, planned[2])
    redrive = ledgers.plan(ledger, {1: (0, 9_000)}, kind=BatchKind.REDRIVE, gaps_allowed=True)
    with ledger.connection as connection, connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO tideline.redrive SELECT %s, 1, kafka_offset FROM tideline.reject WHERE stream_id = 1 LIMIT 20",
            (redrive,),
        )
        cursor.execute(
            "INSERT INTO tideline.staged_count SELECT %(attempt)s - n %% 200, 3, 10 * n, 10 * n + 9, 10, 0, 0 FROM generate_series(1, 10000) AS n;"
            "INSERT INTO tideline.staged_reject SELECT %(attempt)s - n %% 200, 3, n, 'decode', 'bad' FROM generate_series(1, 20000) AS n;"
            # Of the last stream: a merge over the first ones would end early, and look cheap.
            "INSERT INTO tideline.staged_redrive SELECT %(attempt)s - n %% 200, 18, n, ARRAY[n], ARRAY[n] FROM generate_series(1, 5000) AS n;"
            "CREATE SCHEMA ads; CREATE TABLE ads.output (value text, kafka_topic_id uuid, kafka_partition integer, kafka_offset bigint,"
            " tideline_batch bigint, PRIMARY KEY (kafka_topic_id, kafka_partition, kafka_offset));"
            "CREATE TABLE tideline_staging.attempt_1 (value text, kafka_offset bigint, tideline_stream bigint, tideline_task bigint,"
            " key bytea, item text, item_order bytea, tideline_expired boolean);"
            "CREATE TABLE tideline_staging.sieve_1 AS SELECT *, 0 AS tideline_row FROM tideline_staging.attempt_1;"
            "CREATE TABLE tideline_staging.trial_1 AS SELECT *, 0 AS tideline_stream FROM ads.output;"
            "CREATE TABLE ads.output__deleted AS SELECT * FROM ads.output; ALTER TABLE ads.output__deleted ADD PRIMARY KEY (value);"
            "CREATE TABLE tideline_staging.newest_1 AS SELECT *, kafka_topic_id AS there_topic_id, kafka_partition AS there_partition,"
            " kafka_offset AS there_offset, tideline_batch AS there_batch, kafka_topic_id AS mark_topic_id, kafka_partition AS mark_partition,"
            " kafka_offset AS mark_offset,"
            " false AS loses_to_row, false AS loses_to_mark, true AS is_unordered, true AS is_mark_unordered FROM ads.output;"
            "CREATE TABLE tideline_staging.attempt_1_state AS SELECT 1 AS tideline_task, 1 AS phase, key, stream_id, value, expires_at,"
            " kafka_offset FROM tideline.state LIMIT 300;"
            "CREATE TABLE tideline_staging.records_1 (number bigint, kafka_topic_id uuid, kafka_partition integer, kafka_offset bigint,"
            " state text, reason text)",
            {"attempt": attempt.attempt_id},
        )
    with ledger.connection as connection:
        # Make a table scan as expensive as with a history of half a million batches, which would take minutes to create.
        connection.cursor().execute("ANALYZE; SET seq_page_cost = 50")


@pytest.mark.parametrize(("name", "text"), STATEMENTS, ids=[name for name, _ in STATEMENTS])
def test_a_query_finds_what_it_needs_by_an_index(large, name, text):
    for asked in OTHERWISE.get(name, [{}]):
        for query in _queries(name, text):
            read = sorted(_read_whole(_plan(large, query, BOUND | asked)))
            assert not read or name in READS_EVERYTHING, f"asked with {asked} it reads all of {', '.join(read)}"


OF_ONE_RUN = f"SELECT * FROM tideline.{{}} WHERE pipeline = '{PIPELINE}' AND dag_id = '{PIPELINE}' AND run_id = 'scheduled__5000'"


@pytest.mark.parametrize(
    "text",
    [OF_ONE_RUN.format("run_offsets"), OF_ONE_RUN.format("run_completeness"), "SELECT * FROM tideline.holes"],
    ids=["run_offsets", "run_completeness", "holes"],
)
def test_a_view_finds_what_it_needs_by_an_index(large, text):
    assert not _read_whole(_plan(large, SQL(text), {}))


def test_a_query_that_reads_everything_says_so():
    for name, text in STATEMENTS:
        if name in READS_EVERYTHING:
            comment = " ".join(line.removeprefix("-- ") for line in text.splitlines() if line.startswith("--"))
            assert re.search(r"[Rr]eads (all|every)", comment), name


def test_missing_offsets_are_looked_for_in_each_coverage_and_the_view_says_so(large):
    plan = _plan(large, SQL("SELECT * FROM tideline.missing_offsets"), {})
    [[comment]] = large.rows_of(SQL("SELECT obj_description('tideline.missing_offsets'::regclass)"), {})
    large.connection.rollback()
    assert not _read_whole(plan), "a stream's coverage is found by its index"
    assert "Reads all coverage" in comment


def test_a_scan_of_a_whole_table_is_noticed(large):
    for query in ("SELECT FROM tideline.event WHERE action = 'plan'", "SELECT FROM tideline.batch ORDER BY batch_id"):
        assert _read_whole(_plan(large, SQL(query), {}))
    assert not _read_whole(_plan(large, SQL("SELECT FROM tideline.batch ORDER BY batch_id DESC LIMIT 1"), {}))


def _queries(name: str, text: str) -> Iterator[Composable]:
    """Return the parts of a statement that have a plan. A block of PL/pgSQL has none: those read trial tables only."""
    text = re.sub(r"DO \$\$.*?\$\$", "", re.sub(r"--.*", "", text), flags=re.DOTALL)
    for part in text.split(";"):
        if PLANNED.match(part.strip()):
            fields = {field for _, field, *_ in Formatter().parse(part) if field} if "{" in part else set()
            named = FILLED | OTHER_NAMES.get(name, {})
            known = {field: named[field] for field in fields}
            query = SQL(part if "%(" in part else part.replace("%", "%%"))
            yield query.format(**known) if fields else query


def _plan(ledger: Ledger, query: Composable, bound: dict) -> dict:
    try:
        [row] = ledger.rows_of(SQL("EXPLAIN (FORMAT JSON) ") + query, bound)
        return row[0][0]["Plan"]
    finally:
        ledger.connection.rollback()


def _read_whole(node: dict, *, limited: bool = False) -> set[str]:
    """Return the growing tables that a plan scans completely: sequentially, or by an index without a condition.

    An index with a few rows only is permitted, and so is one that is left after the first few rows.
    """
    limited = limited or node["Node Type"] == "Limit"
    name = node.get("Relation Name", "")
    by_index = node["Node Type"] in {"Index Scan", "Index Only Scan", "Bitmap Index Scan"}
    few = limited or "Index Cond" in node or node.get("Index Name") in SHORT
    found = {name} & GROWING if node["Node Type"].endswith("Seq Scan") or (by_index and not few) else set()
    return found.union(*(_read_whole(part, limited=limited) for part in node.get("Plans", ())))
