"""Sessions have the settings that the laws of the ledger need, whatever the server, the database, the role or a pooler says."""

from contextlib import closing, nullcontext
from functools import partial
from uuid import uuid4

import psycopg2
import psycopg2.errors
import pytest

from given_ledger import ledgers
from given_ledger.decisions import HOLE, filled, skip
from given_ledger.ledgers import alter, query
from given_ledger.planners import NAME, coverage, plan
from given_topics.topics import created, produce
from loads.upserts import Rec, scene
from servers.concurrency import beside
from servers.poolers import Pooler
from tideline.domain.facts import PartitionFacts
from tideline.errors import FatalError
from tideline.ledger import publishing, reservations
from tideline.ledger.connection import Ledger
from tideline.records.task_sessions import opened, opened_to_read
from tideline.sinks.postgres import upserting

LEVELS = ("repeatable read", "serializable")
NEEDED = {
    "default_transaction_isolation": "read committed",
    "transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "transaction_read_only": "off",
    "statement_timeout": "0",
    "transaction_timeout": "0",
    "idle_session_timeout": "0",
    "idle_in_transaction_session_timeout": "1min",
    "lock_timeout": "30s",
    "client_connection_check_interval": "5s",
    "synchronous_commit": "on",
    "TimeZone": "UTC",
}
OTHER = {
    "default_transaction_isolation": "serializable",
    "default_transaction_read_only": "on",
    "statement_timeout": "700ms",
    "transaction_timeout": "2s",
    "idle_session_timeout": "900ms",
    "idle_in_transaction_session_timeout": "100ms",
    "lock_timeout": "1ms",
    "synchronous_commit": "off",
    "TimeZone": "Asia/Kathmandu",
}

TABLES = "SELECT tablename::text FROM pg_tables WHERE schemaname = 'tideline' AND tablename <> 'migration'"


@pytest.fixture(params=LEVELS)
def level(request, ledger_url):
    """Let sessions of the database begin at another isolation level."""
    alter(ledger_url, default_transaction_isolation=request.param)
    return request.param


@pytest.fixture
def session(level, ledger_url):
    with Ledger(ledger_url, actor="test") as opened:
        yield opened


def test_what_a_tombstone_has_deleted_stays_deleted_at_any_level_of_the_database(session, ledger_url):
    made = scene(session, [[[Rec(1, "older"), Rec(1, None)]]])
    [stream] = made.log
    older, newer = (made.staged(made.plan({stream: (n, n + 1)})) for n in range(2))
    waiting = []

    def publish_older():
        with Ledger(ledger_url, actor="older") as other:
            made.publish(other, *older[:2])

    def insert_output(ledger):
        written = upserting.insert_output(ledger, staged=newer[1])
        waiting.append(beside(publish_older))
        ledgers.wait_for_a_lock(ledger_url)
        return written

    facts = {stream: PartitionFacts(partition=0, log_start=0, end=2)}
    publishing.publish(session, newer[0], insert_output, facts=facts, filtered_by_difference=False)
    waiting[0]()
    assert (made.table(), made.marks()) == ({}, {1: 1})


def test_no_offset_is_reserved_and_skipped_at_any_level_of_the_database(session, ledger_url, broker, admin):
    topic = created(admin, f"levels_{uuid4().hex[:8]}", partitions=2)
    pipeline = filled(broker, topic)
    plan(ledger_url, pipeline, "first")
    produce(broker, topic, 10)
    stream = {
        partition: number for number, partition in query(session, "SELECT stream_id, partition FROM tideline.stream")
    }[0]
    reservations.lock_pipeline(session, NAME)
    skipping = beside(partial(skip, ledger_url, pipeline, 12, 15))
    ledgers.wait_for_a_lock(ledger_url)
    ledgers.plan(session, {stream: (10, 20)}, pipeline=NAME)
    abandoned = skipping()
    assert query(
        session,
        "SELECT count(*) FROM tideline.batch_range WHERE reserves AND offsets && '[12, 15)' AND stream_id = %s",
        stream,
    ) == [(0,)], abandoned
    assert coverage(session) == [(12, 15, "skipped")]


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_no_table_of_the_ledger_is_written_at_another_level_at_a_prompt(ledger_url, ledger, level):
    tables = [name for (name,) in query(ledger, TABLES)]
    assert len(tables) > 20
    with closing(psycopg2.connect(ledger_url)) as prompt, prompt.cursor() as cursor:
        for table in tables:
            for statement in (
                "DELETE FROM tideline.{}",
                "INSERT INTO tideline.{} OVERRIDING SYSTEM VALUE SELECT * FROM tideline.{} WHERE false",
            ):
                cursor.execute(f"BEGIN ISOLATION LEVEL {level}")
                with pytest.raises(
                    psycopg2.errors.RestrictViolation, match=f"at the isolation level {level.lower()}"
                ) as caught:
                    cursor.execute(statement.format(table, table))
                assert "BEGIN ISOLATION LEVEL READ COMMITTED" in caught.value.diag.message_hint
                cursor.execute("ROLLBACK")


def test_each_act_at_a_prompt_is_refused_at_the_level_of_the_database(level, ledger_url, ledger):
    (stream,) = ledgers.start_streams(ledger, 1)
    with closing(psycopg2.connect(ledger_url)) as prompt, prompt.cursor() as cursor:
        with pytest.raises(
            psycopg2.errors.RestrictViolation,
            match=f"INSERT of tideline.coverage is refused at the isolation level {level}",
        ):
            cursor.execute(HOLE, (stream, "[0, 5)"))
        prompt.rollback()
        cursor.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
        cursor.execute(HOLE, (stream, "[0, 5)"))
        cursor.execute("COMMIT")
    assert coverage(ledger) == [(0, 5, "skipped")]


def in_force(cursor):
    cursor.execute("SELECT " + ", ".join(f"current_setting('{name}')" for name in NEEDED))
    return dict(zip(NEEDED, cursor.fetchall()[0], strict=True))


@pytest.mark.parametrize("way", ["direct", "pooler"])
def test_the_values_of_our_sessions_win(ledger_url, way, monkeypatch):
    alter(ledger_url, **OTHER)
    monkeypatch.setenv("PGTZ", "Asia/Kathmandu")
    with Pooler(ledger_url) if way == "pooler" else nullcontext() as pooler:
        url = pooler.url if pooler else ledger_url
        with Ledger(url, actor="test") as session:
            assert session.behind_pooler is (way == "pooler")
            for _ in range(2):
                with session.transaction(), session.connection.cursor() as cursor:
                    assert in_force(cursor) == NEEDED
            session.reconnect()
            with session.transaction(), session.connection.cursor() as cursor:
                assert in_force(cursor) == NEEDED
        for task in (opened, opened_to_read):
            with task(url) as session, session.cursor() as cursor:
                assert in_force(cursor) == NEEDED


def test_a_pooler_of_transactions_is_refused_before_a_statement_reaches_another_session(ledger_url):
    with (
        Pooler(ledger_url, transactions=True) as pooler,
        Ledger(pooler.url, actor="test") as session,
        closing(psycopg2.connect(pooler.url)),
    ):
        (stream,) = ledgers.start_streams(session, 1)  # the next transaction gets the other session of the server
        with pytest.raises(FatalError, match=r"default_transaction_isolation.* are lost") as caught:
            ledgers.plan(session, {stream: (0, 10)})
        assert "pool_mode = session" in caught.value.next_step
    with Ledger(ledger_url, actor="after") as session:
        assert query(session, "SELECT count(*) FROM tideline.batch") == [(0,)]


@pytest.mark.parametrize("task", [opened, opened_to_read])
def test_tasks_refuse_a_pooler_of_transactions(ledger_url, task):
    with (
        Pooler(ledger_url, transactions=True) as pooler,
        closing(psycopg2.connect(pooler.url)),
        pytest.raises(FatalError, match="are lost"),
    ):
        task(pooler.url)


def test_a_pooler_that_refuses_the_settings_is_named(ledger_url):
    with (
        Pooler(ledger_url, refuses_options=True) as pooler,
        pytest.raises(FatalError, match="unsupported startup parameter") as caught,
    ):
        Ledger(pooler.url, actor="test")
    assert "ignore_startup_parameters" in caught.value.next_step


def test_a_session_without_laws_is_refused(ledger_url):
    alter(ledger_url, session_replication_role="replica")
    with pytest.raises(FatalError, match="no law of the ledger would hold"):
        Ledger(ledger_url, actor="test")
    for task in (opened, opened_to_read):
        with pytest.raises(FatalError, match="no law of the ledger would hold"):
            task(ledger_url)
