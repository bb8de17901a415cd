"""A fresh ledger for each test, the smallest content for it, and queries of it that only tests need."""

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID, uuid4

import psycopg2
import psycopg2.errors
import pytest
from psycopg2.sql import SQL, Composable, Identifier

from tideline.domain.facts import PartitionFacts, TopicFacts
from tideline.domain.offsets import OffsetRange
from tideline.domain.states import BatchKind
from tideline.ledger import attempts, decisions, publishing, reservations, rights, roles
from tideline.ledger.attempts import Attempt, Writer
from tideline.ledger.connection import Ledger
from tideline.ledger.migrate import migrate
from tideline.ledger.publishing import Written
from tideline.ledger.reservations import Reservation, Run
from tideline_stack.postgres import Postgres

PIPELINE = "impressions"
RUN = Run(dag_id="impressions", run_id="manual__1")
WRITER = Writer(dag_id="impressions", run_id="manual__1", task_id="write", try_number=1)
TOPIC_ID = UUID(int=7)
WAITING = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


@contextmanager
def template(postgres: Postgres) -> Iterator[str]:
    """Yield the name of a migrated database to copy: migrating happens once per session instead of once per test."""
    name = f"template_{uuid4().hex[:8]}"
    postgres.ensure_database(name)
    with Ledger(postgres.url(name), actor="test") as ledger:
        migrate(ledger)
        _let_a_role_load(ledger)
    yield name


def _let_a_role_load(ledger: Ledger) -> None:
    """Grant the rights of operator, writer and stager to one role, and all rights to another. `ledger_queries.refused` acts as each of them."""
    names = {duty: f"test_{duty}" for duty in rights.DUTIES}
    with ledger.transaction(), ledger.connection.cursor() as cursor:
        for name in (*names.values(), LOADING, UNHINDERED):  # they may be there, because a server has one set of roles
            cursor.execute(
                f"DO $$ BEGIN CREATE ROLE {name}; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$"
            )
        cursor.execute(f"GRANT test_operator, test_writer, test_stager TO {LOADING}, {UNHINDERED}")
    with ledger.transaction(), ledger.connection.cursor() as cursor:
        for one in roles.granting(names):
            ledger.run_sql(one, {})
        cursor.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA tideline TO {UNHINDERED}")


@contextmanager
def copy_of(postgres: Postgres, template_name: str) -> Iterator[str]:
    """Yield the URL of a copy, which is dropped afterwards."""
    name = f"test_{uuid4().hex[:8]}"
    admin = psycopg2.connect(postgres.url("postgres"))
    admin.autocommit = True
    try:
        with admin.cursor() as cursor:
            # Where no replica needs it, copying files without their log takes half as long.
            create = SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy")
            cursor.execute(create.format(Identifier(name), Identifier(template_name)))
            yield postgres.url(name)
            cursor.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))
    finally:
        admin.close()


def start_streams(ledger: Ledger, count: int, *, start: int = 0, pipeline: str = PIPELINE) -> list[int]:
    """Start `count` streams of one topic; return their ids in partition order."""
    topic = TopicFacts(cluster_id="c", topic="ads", topic_id=TOPIC_ID, compacted=False, partitions=())
    with ledger.transaction():
        reservations.lock_pipeline(ledger, pipeline)
        return [
            reservations.start_stream(
                ledger, pipeline, topic, PartitionFacts(partition=partition, log_start=start, end=start), start
            ).stream_id
            for partition in range(count)
        ]


def plan(
    ledger: Ledger,
    ranges: dict[int, tuple[int, int]],
    *,
    run: Run = RUN,
    gaps_allowed: bool = False,
    kind: BatchKind = BatchKind.LIVE,
    pipeline: str = PIPELINE,
    outside: bool = False,
) -> int:
    """Plan a batch, live by default, over (start, end) by stream id."""
    batch = {
        stream_id: Reservation(
            offsets=OffsetRange(start, end),
            gaps_allowed=gaps_allowed,
            facts=PartitionFacts(partition=0, log_start=0, end=end),
        )
        for stream_id, (start, end) in ranges.items()
    }
    with ledger.transaction():
        batch_id = reservations.reserve(ledger, pipeline, run, kind, [batch], outside=outside)[0]
        reservations.join_run(ledger, pipeline, run, [batch_id])
    return batch_id


def claim(ledger: Ledger, batch_id: int, *, writer: Writer = WRITER, stale_after_seconds: float = 60.0) -> Attempt:
    """Claim a batch; fail the test if another attempt holds it."""
    claimed = attempts.claim(ledger, batch_id, writer, stale_after_seconds=stale_after_seconds)
    assert isinstance(claimed, Attempt), claimed
    return claimed


def stage(ledger: Ledger, attempt: Attempt, *, n_read: int | None = None, n_filtered: int = 0) -> None:
    """Stage counts as if every offset of every range had been read (or the first `n_read` of each)."""
    with ledger.transaction(), ledger.connection.cursor() as cursor:
        for piece in attempt.ranges:
            count = len(piece.offsets) if n_read is None else n_read
            if count:
                cursor.execute(
                    "INSERT INTO tideline.staged_count (attempt_id, stream_id, first_read, last_read, n_read, n_filtered)"
                    " VALUES (%s, %s, %s, %s, %s, %s)",
                    (
                        attempt.attempt_id,
                        piece.stream_id,
                        piece.offsets.start,
                        piece.offsets.start + count - 1,
                        count,
                        n_filtered,
                    ),
                )


def publish(
    ledger: Ledger, attempt: Attempt, *, written: dict[int, int] | None = None, log_start: int = 0, cut: int = 0
) -> None:
    """Publish with an output that consists of its counts only; by default every offset of every range was written.

    At the publication the broker's log begins at `log_start` and ends `cut` offsets before the range does.
    """
    all_written = {piece.stream_id: len(piece.offsets) for piece in attempt.ranges}
    publishing.publish(
        ledger,
        attempt,
        lambda _: Written(n_written=all_written if written is None else written),
        facts={
            piece.stream_id: PartitionFacts(partition=piece.partition, log_start=log_start, end=piece.offsets.end - cut)
            for piece in attempt.ranges
        },
        filtered_by_difference=False,
    )


def leave_hole(ledger: Ledger, stream_id: int, start: int, end: int, what: str) -> None:
    """Record a decision of a person that nothing loads a stretch of one stream."""
    with ledger.transaction():
        reservations.lock_pipeline(ledger, PIPELINE)
        decisions.set_reason(ledger, "a test")
        (stream,) = (one for one in reservations.streams(ledger, PIPELINE) if one.stream_id == stream_id)
        decisions.leave_hole(ledger, stream, OffsetRange(start, end), what, reason="a test")


def wait_for_a_lock(url: str) -> None:
    """Wait until some session of this database waits for another one."""
    with Ledger(url, actor="watcher") as watcher:
        deadline = time.monotonic() + 180
        while not watcher.rows_of(SQL(WAITING), {}):
            assert time.monotonic() < deadline, "no session waited for a lock within 180 s"
            watcher.connection.rollback()
            time.sleep(0.02)


def published(
    ledger: Ledger, ranges: dict[int, tuple[int, int]], *, run: Run = RUN, kind: BatchKind = BatchKind.LIVE
) -> int:
    """Plan, claim, stage and publish a batch."""
    return write(ledger, plan(ledger, ranges, run=run, kind=kind))


def write(ledger: Ledger, batch_id: int) -> int:
    """Claim, stage and publish a planned batch; return its id."""
    attempt = claim(ledger, batch_id)
    stage(ledger, attempt)
    publish(ledger, attempt)
    return batch_id


def alter(url: str, **settings: str) -> None:
    """Set what sessions of the database begin with, from now on."""
    connection = psycopg2.connect(url)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute("SET default_transaction_read_only = off")
        database = Identifier(connection.info.dbname)
        for name, value in settings.items():
            cursor.execute(SQL("ALTER DATABASE {} SET {} = %s").format(database, Identifier(name)), (value,))
    connection.close()


LOADING = "test_loading"
"""A role with all rights of the roles that load. Databases of tests have it, see `template`."""
UNHINDERED = "test_unhindered"
"""A role with every right on the tables of the ledger, which it does not own. Databases of tests have it, too."""
_LAWS = (psycopg2.errors.IntegrityError, psycopg2.errors.RestrictViolation)


def query(ledger: Ledger, sql: str | Composable, *parameters: object) -> list[tuple[Any, ...]]:
    """Return all rows of one statement, in a transaction of its own."""
    with ledger.connection as connection, connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return [tuple(row) for row in cursor.fetchall()] if cursor.description else []


def execute(ledger: Ledger, sql: str, *parameters: object) -> None:
    """Run statements in a transaction of their own."""
    with ledger.connection as connection:
        connection.cursor().execute(sql, parameters)


def refused(ledger: Ledger, sql: str, *parameters: object, by: Collection[str] = ()) -> str:
    """Run statements that Postgres must refuse with a law's error; return its text.

    They are tried as a role that has all rights of tasks, drivers and executors, which may also lack a right; as one that lacks none, so that
    nothing but the law refuses them; and as a superuser, who owns the tables.

    Args:
        ledger: The session.
        sql: The statements.
        parameters: Their parameters.
        by: The duties whose roles try them as well. These have to have the rights, and are refused by the law.
    """
    with pytest.raises((*_LAWS, psycopg2.errors.InsufficientPrivilege)), acting(ledger, LOADING) as cursor:
        cursor.execute(sql, parameters)
    for role in (*(f"test_{duty}" for duty in by), UNHINDERED):
        with pytest.raises(_LAWS), acting(ledger, role) as cursor:
            cursor.execute(sql, parameters)
    with pytest.raises(_LAWS) as caught, ledger.connection as connection:
        connection.cursor().execute(sql, parameters)
    return str(caught.value)


@contextmanager
def acting(ledger: Ledger, role: str) -> Iterator[psycopg2.extensions.cursor]:
    """Act as a role, in a transaction of its own."""
    with ledger.connection as connection, connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL ROLE {role}")
        yield cursor


def state(ledger: Ledger, batch_id: int) -> tuple[str, int]:
    """Return state and fence of a batch."""
    return query(ledger, "SELECT state::text, fence FROM tideline.batch WHERE batch_id = %s", batch_id)[0]


def events(ledger: Ledger, batch_id: int) -> list[tuple[Any, ...]]:
    """Return (actor, action, from, to) of a batch, in order."""
    return query(
        ledger,
        "SELECT actor, action, from_state, to_state FROM tideline.event WHERE batch_id = %s ORDER BY event_id",
        batch_id,
    )


def everything(ledger: Ledger) -> dict[str, list[str]]:
    """Return all rows of all tables of the ledger, as text; not the counters of ids."""
    names = [row[0] for row in query(ledger, "SELECT tablename::text FROM pg_tables WHERE schemaname = 'tideline'")]
    return {name: sorted(map(str, query(ledger, f"SELECT t.* FROM tideline.{name} t"))) for name in names}
