"""Reference tables of a processor: all tasks of an attempt see the same rows, and what cannot be read fails before the read."""

import json
import time
from datetime import date
from decimal import Decimal
from textwrap import dedent

import pytest
from psycopg2.extensions import make_dsn
from typer.testing import CliRunner

import records
import tideline.cli  # noqa: F401 - declares the commands
from loads.sessions import declare, kept, rows, send
from tideline.cli.app import app
from tideline.deployment import secret
from tideline.errors import FatalError, RetryableError
from tideline.records import database_tables
from tideline.spark_jobs import stateful
from tideline.state import reference_tables

VERSIONED = """
    import psycopg2
    from datetime import timedelta
    from tideline.processors import Processor


    class Versioned(Processor):
        rows = {"user_id": "string", "clicks": "bigint"}
        tables = {"version": "ads.version"}

        def open(self, tables):
            [row] = tables["version"].to_pylist()
            self.version = row["version"]
            with psycopg2.connect(URL) as connection, connection.cursor() as cursor:
                cursor.execute("UPDATE ads.version SET version = version + 1")
            connection.close()

        def on_record(self, key, record, state):
            state.value, state.expires_at = {"clicks": self.version}, record["at"] + timedelta(minutes=1)

        def on_expiry(self, key, state):
            yield {"user_id": key, "clicks": 10 * self.version + state.value["clicks"]}


    processor = Versioned()
"""
STATE = {"columns": {"clicks": "bigint"}}


@pytest.fixture
def versioned(loading):
    """Declare a pipeline whose processor changes its reference table whenever it opens, and send it clicks of many users."""
    topic = records.create(loading.bootstrap, partitions=2)
    url = f"URL = {loading.address_in_code()}\n"
    declare(loading, topic, text=url + dedent(VERSIONED), state=STATE)
    send(loading, topic, [(n % 2, f"u{n}", n / 10, 1) for n in range(40)])
    return loading


def create_version(loading):
    loading.rows("CREATE SCHEMA ads; CREATE TABLE ads.version AS SELECT 1 AS version; SELECT 1")


def test_all_tasks_of_an_attempt_see_the_table_as_it_was_before_the_read(versioned, monkeypatch):
    create_version(versioned)
    monkeypatch.setattr(stateful, "WORTH_A_TASK", 1)
    versioned.run()
    found = versioned.rows("SELECT clicks::int, count(*)::int FROM ads.output GROUP BY clicks")
    assert [clicks for clicks, _ in found] == [11]
    assert {value["clicks"] for value, _, _ in kept(versioned).values()} == {1}
    assert found[0][1] + len(kept(versioned)) == 40
    assert versioned.rows("SELECT version > 3 FROM ads.version") == [(True,)], "several tasks have opened it"


def test_a_missing_table_fails_the_batch_before_anything_is_read_and_changes_nothing(versioned):
    batch_ids = versioned.plan("one")
    with pytest.raises(FatalError) as caught:
        versioned.write("one", batch_ids)
    name = versioned.pipeline.name
    assert caught.value.problem == f'{name}: cannot read the table ads.version: relation "ads.version" does not exist'
    assert caught.value.entry == "table-cannot-be-read"
    assert (versioned.states(), kept(versioned), versioned.staging_tables()) == (["failed"], {}, [])
    assert versioned.rows("SELECT count(*)::int FROM tideline.staged_count") == [(0,)]
    create_version(versioned)
    versioned.write("one", batch_ids, try_number=2)
    assert len(kept(versioned)) + len(rows(versioned)) == 40


def test_a_table_that_the_processor_does_not_accept_fails_before_the_read(versioned):
    versioned.rows("CREATE SCHEMA ads; CREATE TABLE ads.version (version int); SELECT 1")
    assert "`open` of the processor in transform.py failed: ValueError" in versioned.refusal(FatalError)
    assert versioned.rows("SELECT count(*)::int FROM tideline.staged_count") == [(0,)]


def test_a_table_without_the_right_to_read_it_is_refused(loading, monkeypatch):
    loading.rows("CREATE SCHEMA ads; CREATE TABLE ads.secret (a int); SELECT 1")
    password = secret.marked("looks only")
    loading.rows(
        f"CREATE ROLE looks_only LOGIN PASSWORD '{password}'; GRANT USAGE ON SCHEMA ads TO looks_only; SELECT 1"
    )
    try:
        url = make_dsn(loading.url, user="looks_only", password=password)
        monkeypatch.setenv("TIDELINE_LEDGER_URL", url)
        with pytest.raises(FatalError, match="permission denied for table secret"):
            database_tables.read(["ads.secret"], reader="a_pipeline")
    finally:
        loading.rows("DROP OWNED BY looks_only; DROP ROLE looks_only; SELECT 1")


def test_a_table_that_is_too_large_is_refused_before_it_fills_the_memory(loading, monkeypatch):
    numbers = "generate_series(1, 50000)"
    loading.rows(
        f"CREATE SCHEMA ads; CREATE VIEW ads.endless AS SELECT repeat('x', 100) AS t FROM {numbers} AS a, {numbers} AS b; SELECT 1"
    )
    monkeypatch.setenv("TIDELINE_LEDGER_URL", loading.url)
    begin = time.monotonic()
    with pytest.raises(FatalError) as caught:
        reference_tables.read("a_pipeline", {"endless": "ads.endless"})
    assert "cannot read the table ads.endless: expected at most 64 MiB in memory" in caught.value.problem
    assert time.monotonic() - begin < 60


def test_several_tables_are_read_as_they_are_at_one_moment_and_types_are_kept(loading, monkeypatch):
    loading.rows(
        "CREATE SCHEMA ads; CREATE TABLE ads.a AS SELECT 1::bigint AS id, 2.50::numeric(12,2) AS price, date '2026-11-01' AS day, "
        "gen_random_uuid() AS u, '{}'::jsonb AS j, now() AS at, NULL::text AS nothing; "
        "CREATE VIEW ads.b AS SELECT * FROM ads.a WHERE id > 1; SELECT 1"
    )
    monkeypatch.setenv("TIDELINE_LEDGER_URL", loading.url)
    found = reference_tables.read("a_pipeline", {"first": "ads.a", "none": "ads.b", "again": "ads.a"})
    [row] = found["first"].to_pylist()
    shown = (row["id"], row["price"], row["day"], row["j"], row["nothing"])
    assert shown == (1, Decimal("2.50"), date(2026, 11, 1), "{}", None)
    assert found["none"].num_rows == 0
    assert found["none"].schema == found["again"].schema


def test_a_lost_connection_is_an_error_that_is_tried_again(loading, monkeypatch):
    loading.rows(
        "CREATE SCHEMA ads; CREATE FUNCTION ads.die() RETURNS int LANGUAGE sql VOLATILE AS 'SELECT 1 FROM pg_terminate_backend(pg_backend_pid())'; "
        "CREATE VIEW ads.dies AS SELECT ads.die() AS n FROM generate_series(1, 10); SELECT 1"
    )
    monkeypatch.setenv("TIDELINE_LEDGER_URL", loading.url)
    with pytest.raises(RetryableError, match=r"the ledger did not carry out a step, to read ads[.]dies"):
        database_tables.read(["ads.dies"], reader="a_pipeline")


def test_validate_and_test_read_the_tables_from_the_database(versioned, tmp_path, monkeypatch):
    monkeypatch.setenv("TIDELINE_LEDGER_URL", versioned.url)
    monkeypatch.setenv("TIDELINE_PIPELINES", str(versioned.folder.parent))

    def validated():
        done = CliRunner().invoke(app, ["validate", versioned.pipeline.name, "--database", "--json"])
        return [one for one in json.loads(done.stdout)["findings"] if one["where"] == "table ads.version"]

    [found] = validated()
    assert (found["verdict"], found["found"]) == (
        "bad",
        'the processor cannot read it: relation "ads.version" does not exist',
    )
    create_version(versioned)
    [found] = validated()
    assert (found["verdict"], found["found"]) == ("ok", "the processor reads its columns version")
    sample = tmp_path / "sample.jsonl"
    sample.write_text('{"user_id": "ada", "at": "2026-11-01T00:00:00Z"}')
    done = CliRunner().invoke(app, ["test", versioned.pipeline.name, str(sample), "--json"])
    assert json.loads(done.stdout)["states"][0]["value"] == {"clicks": 1}
