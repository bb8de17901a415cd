"""What tasks, driver and executors do in Postgres to load, replay, re-drive and fold records, without Spark and Kafka."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
from psycopg2.extras import execute_values
from psycopg2.sql import Composable

from given_ledger import ledgers, states
from given_ledger.decisions import reject
from given_ledger.ledgers import execute, query, stage
from given_ledger.planners import NAME, Brokerless, declared
from given_ledger.states import staged, with_state
from tideline import flow
from tideline.declaration.pipelines import Pipeline
from tideline.domain.facts import PartitionFacts, TopicFacts
from tideline.domain.schemas import Schema
from tideline.domain.states import BatchKind
from tideline.ledger import (
    attempts,
    claimed_outputs,
    decisions,
    folding,
    heads,
    intents,
    letters,
    publications,
    publishing,
    reservations,
    rewinds,
    schemas,
)
from tideline.ledger.attempts import Attempt, Writer
from tideline.ledger.claimed_outputs import ROWS, ClaimedOutput
from tideline.ledger.connection import Ledger
from tideline.ledger.fields import CountedField, count_fields
from tideline.ledger.intents import Intent
from tideline.ledger.publications import Announcer
from tideline.ledger.publishing import Written
from tideline.ledger.refused_publications import refuse
from tideline.ledger.reservations import Run
from tideline.ledger.versions import require_current
from tideline.records import database_tables
from tideline.sinks import staging_tables
from tideline.sinks.postgres import target_table
from tideline.sinks.postgres.column_types import converted
from tideline.sinks.postgres.copying import Copier
from tideline.sinks.postgres.due_timers import Reached, count_due, select_due
from tideline.sinks.postgres.fitting import STAGED_STREAM, STAGED_TASK
from tideline.sinks.postgres.insertion import StagedRows, insert_output
from tideline.sinks.postgres.target_table import Target, sink_sql
from tideline.sinks.staging_tables import staging_name
from tideline.spark_jobs.readers.kept_rejects import read_slice

TABLE, DIMENSION = "ads.impressions", "ads.offers"
_SCHEMA = pa.schema(
    [
        ("impression_id", pa.string()),
        ("offer_id", pa.int64()),
        ("price", pa.decimal128(18, 6)),
        ("shown_at", pa.timestamp("us", "UTC")),
    ]
)
_TASK = 1
_OFFSETS = range(10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Urls:
    """The URLs of the roles that load."""

    operator: str
    writer: str
    stager: str


class Sessions(NamedTuple):
    """A session of each role, as tasks, driver and executors have them."""

    operator: Ledger
    writer: Ledger
    stager: Ledger
    executors: str
    """The URL of the executors' role."""


def everything(urls: Urls, *, refused: Collection[int] = ()) -> str:
    """Do everything that the roles which load have to do, for a new pipeline, each with its own session; return its name.

    The rows of the offsets in `refused` break a CHECK of the table.
    """
    name = f"p_{uuid4().hex[:8]}"
    with (
        Ledger(urls.operator, actor=name) as operator,
        Ledger(urls.writer, actor=name) as writer,
        Ledger(urls.stager, actor=name) as stager,
    ):
        sessions = Sessions(operator, writer, stager, urls.stager)
        _load_everything(sessions, _pipeline(name), refused)
    return name


def _load_everything(sessions: Sessions, pipeline: Pipeline, refused: Collection[int]) -> None:
    operator, writer, *_ = sessions
    name = pipeline.name
    require_current(operator)
    require_current(writer)
    stream = _stream(operator, name)
    with operator.transaction():
        claimed_outputs.claim(operator, name, [_output(TABLE)])
    _move(sessions, name)
    target = target_table.prepare(writer, pipeline, _SCHEMA)
    with writer.transaction():
        writer.rows_of(_dimension(), {})
    load = partial(_load, sessions, target, stream, refused=refused)
    first = load(_plan(operator, name, stream, BatchKind.LIVE), offsets=_OFFSETS, rejected={3, 5})
    flow.advance(operator, name, _run(first.batch_id))
    load(_plan(operator, name, stream, BatchKind.REDRIVE), offsets={3, 5, *refused}, rejected={5})
    load(_plan(operator, name, stream, BatchKind.REPLAY), offsets=_OFFSETS, rejected=())
    _announce(operator, name)
    for batch_id, *_ in letters.owed(writer, name):
        assert all(letter.origin for letter in letters.of_batch(writer, batch_id))
        for sender in (writer, operator):  # a driver sends, and so does upkeep
            letters.settle(sender, batch_id)
    _settle(sessions, name, stream)
    _fold(sessions, name, _stream(operator, name))
    flow.advance(operator, name, _run(first.batch_id))
    _give_up(sessions, name, _stream(operator, name), target)
    assert any(line.endswith(": dropped") for line in flow.upkeep(operator, pipeline))
    flow.free_output(operator, name, reason="given up")


def _output(table: str) -> ClaimedOutput:
    return ClaimedOutput(purpose=ROWS, kind="postgres", place=table, shared=True)


def _move(sessions: Sessions, name: str) -> None:
    """Move the output as an operator does, and claim it as a driver does."""
    operator, writer, *_ = sessions
    for table in ("ads.other", TABLE):
        with operator.transaction():
            decisions.set_reason(operator, "moved")
            claimed_outputs.move(operator, name, [_output(table)])
    with writer.transaction():
        claimed_outputs.claim(writer, name, [_output(TABLE)])


def _give_up(sessions: Sessions, name: str, stream: int, target: Target) -> None:
    """Decide as operators do: retry a batch, abandon it by force, and leave out what it held. A driver finds this out, and stops the stream."""
    operator, writer, *_ = sessions
    batch_id = _plan(operator, name, stream, BatchKind.LIVE)
    flow.retry(operator, batch_id, reason="once more")
    attempt = ledgers.claim(writer, batch_id)
    target_table.create_staging(writer, target, attempt)
    flow.abandon(operator, batch_id, force=True, reason="not needed")
    refuse(writer, attempt, "it was abandoned")
    with operator.transaction():
        operator.run(
            "record_hole", stream_id=stream, start=0, end=5, hole="skipped", reason="not needed", decided_by=None
        )
    with writer.transaction():
        reservations.stop_stream(writer, stream, "the partition is gone")


def _pipeline(name: str) -> Pipeline:
    made = declared("127.0.0.1:1", "ads", name=name, table=TABLE)
    sink = made.sink.model_copy(update={"shared": True})
    return made.model_copy(update={"sink": sink, "upkeep": made.upkeep.model_copy(update={"events_days": 1})})


def _dimension() -> Composable:
    return database_tables.query_of(DIMENSION)


def _stream(ledger: Ledger, pipeline: str) -> int:
    topic = TopicFacts(cluster_id="c", topic="ads", topic_id=uuid4(), compacted=False, partitions=())
    with ledger.transaction():
        reservations.lock_pipeline(ledger, pipeline)
        facts = PartitionFacts(partition=0, log_start=0, end=len(_OFFSETS))
        return reservations.start_stream(ledger, pipeline, topic, facts, 0).stream_id


def _plan(ledger: Ledger, pipeline: str, stream: int, kind: BatchKind) -> int:
    ranges = {stream: (_OFFSETS.start, _OFFSETS.stop)}
    redriven = kind is BatchKind.REDRIVE
    batch_id = ledgers.plan(ledger, ranges, run=_run(uuid4()), kind=kind, pipeline=pipeline, gaps_allowed=redriven)
    if redriven:
        with ledger.transaction():
            reservations.take_rejects(ledger, [batch_id], of_batch=None, reason_like=None)
    return batch_id


def _run(of: object) -> Run:
    return Run(dag_id="impressions", run_id=f"manual__{of}")


def _load(
    sessions: Sessions,
    target: Target,
    stream: int,
    batch_id: int,
    *,
    offsets: Collection[int],
    rejected: Collection[int],
    refused: Collection[int],
) -> Attempt:
    """Claim, stage and publish a batch that reads these offsets and rejects some of them."""
    operator, ledger, stager, url = sessions
    (row,) = operator.rows("find_batch", batch_id=batch_id)
    run = Run(dag_id=row["dag_id"], run_id=row["run_id"])
    flow.check_given(ledger, row["pipeline"], run, [batch_id])
    writer = Writer(dag_id=run.dag_id, run_id=run.run_id, task_id="write", try_number=1)
    attempt = ledgers.claim(ledger, batch_id, writer=writer)
    with ledger.transaction():
        assert attempts.beat(ledger, attempt.attempt)
    staging = target_table.create_staging(ledger, target, attempt)
    if attempt.kind is BatchKind.REDRIVE:
        read_slice(stager, attempt, stream, _OFFSETS.start, _OFFSETS.stop)
    schemas.keep_schemas(stager, attempt.attempt, "default", {1: Schema(kind="AVRO", text='"long"')})
    assert schemas.use_schemas(stager, attempt.attempt, "value", "default", [1])
    count_fields(
        stager, attempt.attempt, f"{stream}:{min(offsets)}", [CountedField("value", "more", 1, stream, min(offsets))]
    )
    kept = sorted(set(offsets) - set(rejected))
    with Copier(url, staging, target.table) as copier:
        n_staged, reasons = copier.copy(_rows(target, stream, kept, refused))
    assert {kept[position] for position in reasons} == set(refused) & set(kept)
    with stager.transaction():
        counted = {"first_read": [min(offsets)], "last_read": [max(offsets)], "n_read": [len(offsets)]}
        stager.run("stage_counts", attempt=attempt.attempt, stream_ids=[stream], **counted, n_filtered=[0], n_bytes=[0])
    reject(stager, attempt, stream, *rejected, *(kept[position] for position in reasons))
    staged = StagedRows(target=target, attempt=attempt, table=staging, tasks={_TASK: n_staged})
    facts = {stream: PartitionFacts(partition=0, log_start=0, end=_OFFSETS.stop)}
    publishing.publish(
        ledger, attempt, partial(insert_output, staged=staged), facts=facts, filtered_by_difference=False
    )
    staging_tables.drop(ledger, attempt)
    return attempt


def _settle(sessions: Sessions, pipeline: str, stream: int) -> None:
    """Publish a batch of an outside sink."""
    operator, ledger, stager, _ = sessions
    after = (_OFFSETS.stop, _OFFSETS.stop + 2)
    run_id = _run(uuid4())
    batch_id = ledgers.plan(operator, {stream: after}, run=run_id, pipeline=pipeline, outside=True)
    writer = Writer(dag_id=run_id.dag_id, run_id=run_id.run_id, task_id="write", try_number=1)
    attempt = ledgers.claim(ledger, batch_id, writer=writer)
    ledgers.stage(stager, attempt)
    intent = Intent(
        attempt_id=attempt.attempt_id,
        attempt=attempt.attempt,
        fence=attempt.fence,
        output="a topic",
        n_rows=2,
        written=Written(n_written={stream: 2}),
        facts={stream: PartitionFacts(partition=0, log_start=0, end=after[1])},
        filtered_by_difference=False,
    )
    intents.intend(ledger, attempt, intent)
    intents.settle(ledger, attempt, intent)


def _fold(sessions: Sessions, pipeline: str, stream: int) -> None:
    """Publish two batches with states, undo the second one, and delete the undo of the first."""
    ledger = sessions.operator
    first = _folded(
        sessions, pipeline, {stream: (0, 5)}, [(1, "[1]", stream, {}, None, 1), (1, "[2]", stream, {}, None, 2)]
    )
    second = _folded(
        sessions, pipeline, {stream: (5, 9)}, [(1, "[1]", stream, {}, None, 5), (1, "[2]", stream, None, None, 6)]
    )
    with ledger.transaction():
        [undone] = rewinds.after(ledger, pipeline, first)
        assert undone.batch_id == second
        rewinds.undo(ledger, pipeline, [second], to_batch=first, reason="wrong")
        rewinds.delete_rows(ledger, TABLE, [second])
    _folded(
        sessions, pipeline, {stream: (5, 7)}, [], kind=BatchKind.BACKFILL
    )  # of the hole that the rewind has left, a part stays
    assert len(rewinds.prune(ledger, pipeline, 0)) == 1


def _folded(
    sessions: Sessions,
    pipeline: str,
    ranges: dict[int, tuple[int, int]],
    rows: list[states.Staged],
    *,
    kind: BatchKind = BatchKind.LIVE,
) -> int:
    operator, ledger, stager, _ = sessions
    run = _run(uuid4())
    batch_id = states.planned(operator, ranges, kind=kind, run=run, pipeline=pipeline)
    writer = Writer(dag_id=run.dag_id, run_id=run.run_id, task_id="write", try_number=1)
    attempt = ledgers.claim(ledger, batch_id, writer=writer)
    ledgers.stage(stager, attempt)
    found = states.staged(ledger, attempt, rows)
    count_due(ledger, attempt, staging_name(attempt), [Reached("ads", 0, datetime.now(UTC), True)], [1])
    bound = {
        "stream_id": next(iter(ranges)),
        "at": datetime.now(UTC),
        "keeps": True,
        "folding": [1],
        "part": 0,
        "n_parts": 1,
    }
    page = {"at_once": 1, "after_at": "-infinity", "after_key": ""}
    with stager.transaction():
        stager.rows_of(sink_sql("select_states"), {"pipeline": pipeline, "keys": ["[1]"]})
        stager.rows_of(select_due(staging_name(attempt)), {**bound, **page})
    states.publish(ledger, attempt, found)
    staging_tables.drop(ledger, attempt)
    return batch_id


def _rows(target: Target, stream: int, offsets: Collection[int], refused: Collection[int]) -> pa.Table:
    every = {"offer_id": 1, "shown_at": datetime.now(UTC)}
    prices = [Decimal(-1 if offset in refused else 1) for offset in offsets]
    rows = [{"impression_id": str(uuid4()), "price": price, **every} for price in prices]
    produced = pa.Table.from_pylist(rows, _SCHEMA)
    return pa.table(
        {
            **{column.name: converted(produced.column(column.name), column) for column in target.columns},
            "kafka_offset": pa.array(offsets, pa.int64()),
            STAGED_STREAM: pa.repeat(pa.scalar(stream, pa.int64()), len(offsets)),
            STAGED_TASK: pa.repeat(pa.scalar(_TASK, pa.int64()), len(offsets)),
        }
    )


def _announce(ledger: Ledger, pipeline: str) -> None:
    waiting = publications.waiting(ledger, pipeline)
    announcer = Announcer(dag_id="impressions", run_id="manual__1", task_id="publish")
    assert len(publications.take(ledger, waiting, announcer)) == len(waiting) == 3
    publications.confirm(ledger, waiting)


TARGET = (
    "CREATE SCHEMA ads; CREATE TABLE ads.output (hash bigint NOT NULL, kafka_topic_id uuid, kafka_partition integer, kafka_offset bigint,"
    " tideline_batch bigint NOT NULL, PRIMARY KEY (kafka_topic_id, kafka_partition, kafka_offset))"
)
_LISTS = {
    "states": "SELECT key, value, stream_id, expires_at, kafka_offset FROM tideline.state ORDER BY key",
    "positions": "SELECT stream_id, next_offset, max_time FROM tideline.state_position WHERE next_offset > 0 ORDER BY 1",
    "rows": "SELECT kafka_partition, kafka_offset, hash FROM ads.output ORDER BY 1, 2",
    "rejects": "SELECT stream_id, kafka_offset FROM tideline.reject ORDER BY 1, 2",
}


class Folded:
    """A pipeline over two partitions, in batches of `batch_records`."""

    def __init__(self, ledger: Ledger, *ends: int, batch_records: int = 8) -> None:
        self.ledger = ledger
        self.ads = Brokerless(ledger, *ends, batch_records=batch_records, run_batches=50)
        self.ads.pipeline = with_state(self.ads.pipeline)
        execute(ledger, TARGET)

    def load(self, name: str) -> list[int]:
        """Plan a run, and write its batches."""
        batch_ids = self.ads.plan(name)
        for batch_id in batch_ids:
            self.write(batch_id, name)
        heads.advance_published(self.ledger, NAME)
        return batch_ids

    def write(self, batch_id: int, name: str) -> None:
        """Claim, fold and publish one batch."""
        writer = Writer(dag_id=NAME, run_id=name, task_id="write", try_number=1)
        attempt = flow.claim(self.ledger, batch_id, writer, pipeline=NAME)
        assert isinstance(attempt, Attempt), attempt
        stage(self.ledger, attempt)
        rows, states, rejected = self.fold(attempt)
        found = staged(self.ledger, attempt, [(1, key, *state) for key, state in states.items()])
        for stream, offset in rejected:
            reject(self.ledger, attempt, stream, offset)

        def insert_output(session: Ledger) -> Written:
            folding.publish_states(session, attempt, found)
            with session.connection.cursor() as cursor:
                execute_values(cursor, "INSERT INTO ads.output VALUES %s", rows)
            written = {piece.stream_id: len(piece.offsets) for piece in attempt.ranges}
            for stream, _ in rejected:
                written[stream] -= 1
            return Written(n_written=written)

        facts = {
            piece.stream_id: PartitionFacts(partition=piece.partition, log_start=0, end=1000)
            for piece in attempt.ranges
        }
        publishing.publish(self.ledger, attempt, insert_output, facts=facts, filtered_by_difference=False)

    def fold(self, attempt: Attempt) -> tuple[list[Any], dict[str, Any], list[tuple[int, int]]]:
        """Return the rows, the changed states and the rejects of a batch. Every seventh record ends the state of its key."""
        states = dict(query(self.ledger, "SELECT key, value FROM tideline.state"))
        rows, changed, rejected = [], {}, []
        for piece in attempt.ranges:
            for offset in range(piece.offsets.start, piece.offsets.end):
                if offset % 11 == 5:
                    rejected.append((piece.stream_id, offset))
                    continue
                key = f"[{piece.partition}, {offset % 3}]"
                before = states.get(key) or {"hash": 0}
                now = {"hash": (before["hash"] * 31 + offset + 1) % 1_000_003}
                states[key] = None if offset % 7 == 6 else now
                changed[key] = (piece.stream_id, states[key], None, offset)
                rows.append((now["hash"], str(piece.topic_id), piece.partition, offset, attempt.batch_id))
        return rows, changed, rejected

    def seen(self) -> dict[str, Any]:
        """Return what readers see, without the numbers of batches."""
        return {name: query(self.ledger, text) for name, text in _LISTS.items()}

    def everything(self) -> dict[str, Any]:
        """Return all rows of all tables."""
        output = {"ads.output": sorted(map(str, query(self.ledger, "SELECT * FROM ads.output")))}
        return ledgers.everything(self.ledger) | output
