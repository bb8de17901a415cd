"""doctor: a sound pipeline is ok, and each possible fault is reported in one line."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from uuid import uuid4

import psycopg2
import pytest
from confluent_kafka import TopicPartition
from psycopg2.sql import SQL, Identifier

from given_ledger import granted_rights, ledgers
from given_ledger.ledgers import alter
from given_topics import topics
from servers import cli_process
from servers.cli_process import NAME, Cli, table
from servers.poolers import Pooler
from tideline import flow
from tideline.declaration import pipelines
from tideline.deployment import secret
from tideline.domain.requests import NewRecords
from tideline.errors import NeedsOperatorError
from tideline.kafka.broker import Broker
from tideline.ledger import attempts, rights
from tideline.ledger.connection import Ledger
from tideline.ledger.reservations import Run
from tideline.reports.checks import ledger as ledger_checks
from tideline.sinks.staging_tables import staging_name


@contextmanager
def lawless(url: str) -> Iterator[psycopg2.extensions.cursor]:
    """Open a superuser's session in which no trigger fires, as during some restores."""
    connection = psycopg2.connect(url)
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute("SET session_replication_role = replica")
            yield cursor
    finally:
        connection.close()


def verdicts(cli: Cli, *arguments: str, code: int = 0) -> dict[tuple[str, str], dict]:
    """Return the checks by subject and name; of several with one name the worst."""
    document = cli.json("doctor", *arguments, code=code)
    assert document["ok"] is (code == 0)
    ascending = sorted(document["checks"], key=lambda check: ("ok", "warn", "bad").index(check["verdict"]))
    return {(check["about"], check["check"]): check for check in ascending}


USER = ("ledger", "user")
"""Warns in most tests here, whose user is the superuser of the server; tests of their own look at it."""


def not_ok(checks: dict[tuple[str, str], dict]) -> dict[tuple[str, str], str]:
    return {place: check["verdict"] for place, check in checks.items() if check["verdict"] != "ok" and place != USER}


def test_a_sound_pipeline_is_ok(cli, ledger, broker, topic):
    topics.produce(broker, topic, 5)
    cli_process.load(cli, ledger, rejected=2)
    done = cli("doctor", NAME)
    assert {row["verdict"] for row in table(done) if (row["about"], row["check"]) != USER} == {"ok"}
    assert {
        (NAME, name)
        for name in (
            "declaration",
            "brokers",
            "retention",
            "streams",
            "output",
            "coverage",
            "counts",
            "rejects",
            "attempts",
        )
    } <= {(row["about"], row["check"]) for row in table(done)}
    assert done.stdout.splitlines()[-1].endswith(" ok, 1 warn, 0 bad")  # of the superuser


def test_what_dead_attempts_left_behind_is_worth_a_look(cli, ledger, ledger_url, broker, topic):
    topics.produce(broker, topic, 5)
    batch_id = cli_process.load(cli, ledger)
    topics.produce(broker, topic, 5)
    pipeline = pipelines.load(cli.folder / NAME)
    run = Run(dag_id=NAME, run_id="manual__2")
    (silent,) = flow.plan(ledger, Broker(pipeline.source), pipeline, run, NewRecords()).batch_ids
    attempt = ledgers.claim(ledger, silent)
    ledgers.stage(ledger, attempt)
    with lawless(ledger_url) as cursor:
        cursor.execute("SELECT attempt FROM tideline.attempt WHERE batch_id = %s", (batch_id,))
        left = f"attempt_{cursor.fetchone()[0].hex}"
        cursor.execute(f"CREATE TABLE tideline_staging.{left} (id bigint)")
        cursor.execute(f"CREATE TABLE tideline_staging.{staging_name(attempt)} (id bigint)")
        cursor.execute("UPDATE tideline.attempt SET heartbeat_at = now() - interval '1 hour' WHERE outcome IS NULL")
    checks = verdicts(cli)
    assert not_ok(checks) == {("ledger", "staging"): "warn", (NAME, "attempts"): "warn"}
    found = checks["ledger", "staging"]["found"]
    assert f"{left} of batch {batch_id} attempt 1" in found
    assert staging_name(attempt) not in found
    assert "0 counts" in found
    assert f"batch {silent} " in checks[NAME, "attempts"]["found"]
    attempts.fail(ledger, attempt, "gone")
    assert "1 counts" in verdicts(cli)["ledger", "staging"]["found"]


def test_rows_that_were_changed_past_the_laws_are_found(cli, ledger, ledger_url, broker, topic):
    topics.produce(broker, topic, 5)
    first = cli_process.load(cli, ledger, rejected=2)
    topics.produce(broker, topic, 5)
    second = cli_process.load(cli, ledger)
    with lawless(ledger_url) as cursor:
        cursor.execute("DELETE FROM tideline.reject WHERE kafka_offset = 1")
        cursor.execute("ALTER TABLE tideline.batch_range DROP CONSTRAINT counts_add_up")
        cursor.execute("UPDATE tideline.batch_range SET n_written = n_written - 1 WHERE batch_id = %s", (second,))
    checks = verdicts(cli, NAME, code=30)
    assert not_ok(checks) == {(NAME, "counts"): "bad", (NAME, "rejects"): "bad"}
    assert f"batch {second} {topic}/0 [5, 10)" in checks[NAME, "counts"]["found"]
    assert f"batch {first} {topic}/0 [0, 5)" in checks[NAME, "rejects"]["found"]


def test_offsets_without_an_account_are_found(cli, ledger, ledger_url, broker, topic):
    topics.produce(broker, topic, 5)
    cli_process.load(cli, ledger)
    with lawless(ledger_url) as cursor:
        cursor.execute("UPDATE tideline.coverage SET offsets = int8range(0, 3)")
    checks = verdicts(cli, NAME, code=30)
    assert (checks[NAME, "coverage"]["verdict"], checks[NAME, "coverage"]["found"]) == (
        "bad",
        f"no batch and no hole accounts for {topic}/0 [3, 5)",
    )
    (missing,) = cli.json("coverage", NAME, code=30)["holes"]
    assert (missing["hole"], missing["start_offset"], missing["end_offset"]) == ("missing", 3, 5)


def test_a_stream_that_stopped_or_will_stop_is_bad_and_the_command_is_named(cli, ledger, broker, topic, admin):
    topics.produce(broker, topic, 5)
    cli_process.load(cli, ledger)
    topics.produce(broker, topic, 5)
    admin.delete_records([TopicPartition(topic, 0, 8)])[TopicPartition(topic, 0)].result()
    soon = verdicts(cli, code=30)[NAME, "streams"]
    assert f"the next plan stops 1: {topic}/0: offsets [5, 8) are gone unread" in soon["found"]
    pipeline = pipelines.load(cli.folder / NAME)
    with pytest.raises(NeedsOperatorError):
        flow.plan(ledger, Broker(pipeline.source), pipeline, Run(dag_id=NAME, run_id="manual__2"), NewRecords())
    now = verdicts(cli, code=30)[NAME, "streams"]
    assert now["found"].startswith(f"1 stopped: {topic}/0: offsets [5, 8) are gone unread")
    assert f"tideline accept-loss {NAME} {topic}/0 --reason ..." in now["next_step"]


def test_retention_that_leaves_no_room_between_two_runs_is_bad(cli, admin, topic):
    soon_gone = topics.created(admin, f"events_{uuid4().hex[:8]}", **{"retention.ms": "3600000"})
    rather_soon = topics.created(admin, f"events_{uuid4().hex[:8]}", **{"retention.ms": "7200000"})
    cli.declare("hourly", soon_gone)
    cli.declare("close", rather_soon)
    cli.declare("by_hand", soon_gone, schedule=None)
    checks = verdicts(cli, code=30)
    assert not_ok(checks) == {("hourly", "retention"): "bad", ("close", "retention"): "warn"}
    assert "keeps records for 1 h, runs are up to 1 h apart" in checks["hourly", "retention"]["found"]


def test_declarations_and_brokers_that_do_not_work_are_bad(cli, ledger, admin, topic):
    ledgers.start_streams(ledger, 1, pipeline="forgotten")
    compacted = topics.created(admin, f"events_{uuid4().hex[:8]}", **{"cleanup.policy": "compact"})
    cli.declare("broken", topic, description=7)
    cli.declare("missing", "no_such_topic")
    cli.declare("compacted", compacted)
    cli.declare("silent", topic)
    declaration = cli.folder / "silent" / "pipeline.yaml"
    declaration.write_text(declaration.read_text().replace('{"env": "TIDELINE_KAFKA"}', '"127.0.0.1:1"'))
    checks = verdicts(cli, code=30)
    assert not_ok(checks) == {
        ("broken", "declaration"): "bad",
        ("forgotten", "declaration"): "warn",
        ("missing", "topics"): "bad",
        ("compacted", "topics"): "warn",
        ("silent", "brokers"): "bad",
    }
    assert "no_such_topic does not exist" in checks["missing", "topics"]["found"]
    assert "'clicks'" in cli.error("doctor", "clicks", code=20)["error"]


def test_brokers_that_are_known_not_to_answer_are_not_asked_for_the_claims_of_their_topics(cli, ledger, topic):
    for name, more in {"table": {}, "topic": {"sink": {"kind": "kafka", "topic": "out"}}}.items():
        declaration = cli.declare(name, topic, **more) / "pipeline.yaml"
        declaration.write_text(declaration.read_text().replace('{"env": "TIDELINE_KAFKA"}', '"127.0.0.1:1"'))
    (cli.folder / "topic" / "target.sql").unlink()
    checks = verdicts(cli, code=30)
    assert [checks[name, "brokers"]["verdict"] for name in ("table", "topic")] == ["bad", "bad"]
    assert checks["table", "claims"]["verdict"] == "ok", "a table is no question to brokers"
    assert ("topic", "claims") not in checks


def test_a_database_that_is_not_fit_for_the_ledger_is_bad(cli, ledger_url, postgres):
    with lawless(ledger_url) as cursor:
        cursor.execute("DELETE FROM tideline.migration WHERE number = (SELECT max(number) FROM tideline.migration)")
        for name in ("dag_run", "task_instance", "alembic_version"):
            cursor.execute(SQL("CREATE TABLE {} (id bigint)").format(Identifier(name)))
    checks = verdicts(cli, code=30)
    assert not_ok(checks) == {("ledger", "own database"): "bad", ("ledger", "migrations"): "bad"}
    assert checks[NAME, "brokers"]["verdict"] == "ok"  # checks that do not need the ledger are made anyway
    empty = replace(cli, variables={**cli.variables, "TIDELINE_LEDGER_URL": postgres.url("postgres")})
    assert verdicts(empty, code=30)["ledger", "migrations"]["next_step"] == "run: tideline migrate"
    without = replace(cli, variables={"TIDELINE_KAFKA": cli.variables["TIDELINE_KAFKA"]})
    assert not_ok(verdicts(without, code=30)) == {("ledger", "connection"): "bad"}


def test_what_sessions_of_psql_have_is_shown_and_warned_of_where_the_ledger_refuses_them(cli, ledger, ledger_url):
    sound = verdicts(cli)
    assert sound["ledger", "sessions"]["found"].startswith(
        "psql has default_transaction_isolation read committed, default_transaction_read_only off, statement_timeout 0"
    )
    assert sound["ledger", "pooler"]["found"] == "TIDELINE_LEDGER_URL leads to Postgres itself"
    alter(ledger_url, default_transaction_isolation="serializable", statement_timeout="700ms")
    check = verdicts(cli)["ledger", "sessions"]
    assert check["verdict"] == "warn"
    assert "psql has default_transaction_isolation serializable (from database)" in check["found"]
    assert "statement_timeout 700ms" in check["found"]
    assert check["next_step"].startswith("SET default_transaction_isolation = 'read committed';")


def test_a_pooler_is_named_and_one_of_transactions_is_bad(cli, ledger_url):
    with Pooler(ledger_url) as pooler:
        behind = replace(cli, variables={**cli.variables, "TIDELINE_LEDGER_URL": pooler.url})
        assert verdicts(behind)["ledger", "pooler"]["found"].endswith(
            "to a pooler, which keeps the settings of sessions"
        )
    with Pooler(ledger_url, transactions=True) as pooler:
        behind = replace(cli, variables={**cli.variables, "TIDELINE_LEDGER_URL": pooler.url})
        check = verdicts(behind, code=30)["ledger", "pooler"]
        assert "other settings of the session in TIDELINE_LEDGER_URL are lost" in check["found"]
        assert "pool_mode = session" in check["next_step"]


def test_a_user_who_may_not_write_is_found(cli, ledger_url):
    with cli_process.reader_of(ledger_url) as url:
        checks = verdicts(replace(cli, variables={**cli.variables, "TIDELINE_LEDGER_URL": url}), code=30)
    assert not_ok(checks) == {("ledger", "rights"): "bad", (NAME, "output"): "bad"}
    assert "lacks INSERT on tideline.attempt, UPDATE on tideline.attempt, " in checks["ledger", "rights"]["found"]
    assert "hush" not in str(checks)


def test_a_user_whom_no_law_binds_is_warned_of(postgres):
    with granted_rights.warehouse(postgres) as warehouse:

        def found(url: str) -> tuple[str, str]:
            with Ledger(url, actor="test") as ledger, ledger.transaction():
                check = ledger_checks.user(ledger, "TIDELINE_LEDGER_URL", ["operator"])
            return str(check.verdict), check.found

        assert found(warehouse.admin) == (
            "warn",
            "postgres, of TIDELINE_LEDGER_URL, is a superuser: no law of the ledger binds it",
        )
        owner = warehouse.role("owner")
        can = (
            f"{owner}, of TIDELINE_LEDGER_URL, may act as {owner}, the owner of the ledger: it can switch off the laws"
        )
        assert found(warehouse.url("owner")) == ("warn", can)
        for duty in rights.GRANTED:
            fine = f"{warehouse.role(duty)} is no superuser, and may not act as {owner}"
            assert found(warehouse.url(duty)) == ("ok", fine)
        warehouse.run(f"GRANT tideline_owner TO {warehouse.role('reader')}")
        assert found(warehouse.url("reader"))[0] == "warn"


def test_the_warning_of_a_superuser_names_the_next_step_and_is_no_failure(cli):
    check = verdicts(cli)[USER]
    assert check["verdict"] == "warn"
    assert "tideline migrate --roles makes operator, writer, stager, reader" in check["next_step"]


def test_an_airflow_that_does_not_answer_is_bad(cli):
    variables = {"TIDELINE_AIRFLOW_URL": "http://127.0.0.1:1", "TIDELINE_AIRFLOW_USERNAME": "admin"}
    half = replace(cli, variables={**cli.variables, **variables})
    assert "TIDELINE_AIRFLOW_PASSWORD is not set" in verdicts(half, code=30)["airflow", "connection"]["found"]
    silent = replace(half, variables={**half.variables, "TIDELINE_AIRFLOW_PASSWORD": secret.marked("hush")})
    checks = verdicts(silent, code=30)
    assert not_ok(checks) == {("airflow", "connection"): "bad"}
    assert "hush" not in str(checks)


def test_rows_that_no_batch_has_written_are_bad_where_the_next_run_will_write(cli, ledger, ledger_url, broker, topic):
    topics.produce(broker, topic, 5)
    batch_id = cli_process.load(cli, ledger)
    with lawless(ledger_url) as cursor:
        cursor.execute(
            "CREATE SCHEMA ads;"
            "CREATE TABLE ads.output (kafka_topic_id uuid, kafka_partition int, kafka_offset bigint, tideline_batch bigint)"
        )
        add = "INSERT INTO ads.output SELECT topic_id, partition, generate_series(%s, %s), %s FROM tideline.stream"
        cursor.execute(add, (0, 4, batch_id))
    assert verdicts(cli)[NAME, "output rows"]["verdict"] == "ok"
    with lawless(ledger_url) as cursor:
        cursor.execute(add, (5, 6, batch_id))
    found = verdicts(cli, code=30)[NAME, "output rows"]
    assert found["found"].endswith(f"no batch of the ledger has written: {topic}/0 from offset 5 on")
    with lawless(ledger_url) as cursor:
        cursor.execute("ALTER TABLE ads.output DROP COLUMN kafka_offset")
    assert "has not the columns of an output table" in verdicts(cli, code=30)[NAME, "output rows"]["found"]
