"""Tables that keep the newest record of each key: loaded by a pipeline, or by hand without Spark and Kafka."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any
from uuid import uuid4

from psycopg2.sql import SQL, Identifier

import records
from given_ledger import ledgers
from given_ledger.decisions import reject
from loads.loading import Loading
from tideline import flow
from tideline.domain.facts import PartitionFacts, TopicFacts
from tideline.domain.states import BatchKind
from tideline.ledger import publishing, reservations
from tideline.ledger.attempts import Attempt, Range
from tideline.ledger.connection import Ledger
from tideline.ledger.reservations import Run
from tideline.sinks import staging_tables
from tideline.sinks.postgres import target_table, upserting
from tideline.sinks.postgres.column_types import Column
from tideline.sinks.postgres.fitting import Upsert
from tideline.sinks.postgres.insertion import StagedRows
from tideline.sinks.postgres.target_table import Target, deletions_name
from tideline.sinks.staging_tables import STAGING_SCHEMA
from tideline.spark_jobs.readers.kept_rejects import read_slice

TARGET = """\
CREATE SCHEMA IF NOT EXISTS ads;
CREATE TABLE ads.output (
    id bigint PRIMARY KEY,
    name text,
    price numeric(12, 4) CHECK (price < 1000),
    kafka_topic_id uuid NOT NULL,
    kafka_partition integer NOT NULL,
    kafka_offset bigint NOT NULL,
    tideline_batch bigint NOT NULL
);
"""
KEY = {"format": "json", "columns": {"id": "bigint"}}
COLUMNS = {"name": "string", "price": "decimal(12,4)"}
Event = tuple[int, str | None]
"""A key and the name that its record gives it; None is a tombstone."""


def declare(loading: Loading, topic: str, *, order: Sequence[str] = (), target: str = TARGET, **rest: object) -> None:
    """Declare an upsert pipeline. Tombstones delete, unless `rest` says otherwise or there is an order."""
    given = {"key": KEY, "tombstones": "keep" if order else "delete", "columns": COLUMNS, **rest}
    sink = {"mode": "upsert", "key": ["id"], **({"order": [*order]} if order else {})}
    loading.declare(topic, target=target, sink=sink, **given)  # type: ignore[arg-type]


def send(loading: Loading, topic: str, events: Iterable[Event], **rest: object) -> None:
    """Send events in order."""
    given = list(events)
    records.produce(
        loading.bootstrap,
        topic,
        [None if name is None else json.dumps({"name": name, "price": 1}) for _, name in given],
        keys=[json.dumps({"id": key}).encode() for key, _ in given],
        **rest,  # type: ignore[arg-type]
    )


def reduced(events: Iterable[Event]) -> dict[int, str]:
    """Return the newest name of each key that is not deleted."""
    newest = dict(events)
    return {key: name for key, name in newest.items() if name is not None}


def table(loading: Loading) -> dict[int, str]:
    """Return the name of each key in the table."""
    return dict(loading.rows("SELECT id, name FROM ads.output ORDER BY id"))


def tombstones(loading: Loading) -> dict[int, int]:
    """Return the offset of the newest tombstone of each key."""
    return dict(loading.rows("SELECT id, kafka_offset FROM ads.output__deleted ORDER BY id"))


def whole(loading: Loading) -> list[tuple[object, ...]]:
    """Return the table with all coordinates, without the batch, which a replay changes."""
    return loading.rows("SELECT id, name, price, kafka_partition, kafka_offset FROM ads.output ORDER BY id")


_TASK = 1
_NUMBERS = count(1)
_TABLE = """\
CREATE SCHEMA IF NOT EXISTS ads;
CREATE TABLE {table} (id bigint PRIMARY KEY, rank bigint NOT NULL, name text, kafka_topic_id uuid NOT NULL,
    kafka_partition integer NOT NULL, kafka_offset bigint NOT NULL, tideline_batch bigint NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class Rec:
    """One record."""

    key: int
    name: str | None
    """None for a tombstone."""
    rank: int | None = 0
    """The column that orders records, if the table has an order. None of a tombstone that does not say it."""
    is_bad: bool = False
    """Whether it is rejected until it is re-driven or replayed after `Scene.fix`."""


@dataclass(slots=True)
class Scene:
    """One pipeline and its table. The streams of later incarnations of the topic come after those of earlier ones."""

    ledger: Ledger
    log: Mapping[int, Sequence[Rec]]
    """The records of each stream, by stream id."""
    target: Target
    pipeline: str
    is_fixed: bool = False
    partitions: int = 1
    """Of each incarnation of the topic."""
    gone: set[tuple[int, int]] = field(default_factory=set)
    """Stream and offset of records that compaction has removed."""
    log_start: int = 0
    """What the broker says of the start of each log when a batch is published."""
    loaded: dict[tuple[int, int], bool] = field(default_factory=dict)
    """By stream and offset, whether the record is in the output (else it is a reject)."""

    def plan(self, ranges: Mapping[int, tuple[int, int]], kind: BatchKind = BatchKind.LIVE) -> int:
        """Plan a batch over (start, end) by stream id."""
        run = Run(dag_id=self.pipeline, run_id=f"manual__{uuid4()}")
        redriven = kind is BatchKind.REDRIVE
        batch_id = ledgers.plan(
            self.ledger,
            dict(ranges),
            run=run,
            kind=kind,
            pipeline=self.pipeline,
            gaps_allowed=redriven or bool(self.gone),
        )
        if redriven:
            with self.ledger.transaction():
                reservations.take_rejects(self.ledger, [batch_id], of_batch=None, reason_like=None)
        return batch_id

    def advance(self) -> None:
        """Move the heads of all streams over what is published."""
        flow.advance(self.ledger, self.pipeline, Run(dag_id=self.pipeline, run_id="manual__advance"))

    def redrive(self) -> None:
        """Decode all rejects again."""
        rejected: dict[int, list[int]] = {}
        for (stream, offset), is_written in self.loaded.items():
            if not is_written:
                rejected.setdefault(stream, []).append(offset)
        for stream, offsets in rejected.items():
            self.load(self.plan({stream: (min(offsets), max(offsets) + 1)}, BatchKind.REDRIVE))

    def load(self, batch_id: int) -> None:
        """Claim, stage and publish a batch."""
        attempt, staged, read = self.staged(batch_id)
        self.publish(self.ledger, attempt, staged)
        self.publishes(read)

    def publishes(self, read: Iterable[tuple[int, int]]) -> None:
        """Note what a batch that was just published has read."""
        self.loaded |= {(stream, offset): self._is_good(stream, offset) for stream, offset in read}

    def staged(self, batch_id: int) -> tuple[Attempt, StagedRows, list[tuple[int, int]]]:
        """Claim and stage a batch. Return what publishing needs, and stream and offset of each record that was read."""
        attempt = ledgers.claim(self.ledger, batch_id)
        table = target_table.create_staging(self.ledger, self.target, attempt)
        read = [(piece.stream_id, offset) for piece in attempt.ranges for offset in self._read(attempt, piece)]
        with self.ledger.transaction():
            for stream in {stream for stream, _ in read}:
                self._count(attempt, stream, [offset for of, offset in read if of == stream])
            n_rows = sum(self._stage(table, *place) for place in read if self._is_good(*place))
        for stream, offset in read:
            if not self._is_good(stream, offset):
                reject(self.ledger, attempt, stream, offset)
        return attempt, StagedRows(target=self.target, attempt=attempt, table=table, tasks={_TASK: n_rows}), read

    def publish(self, ledger: Ledger, attempt: Attempt, staged: StagedRows) -> None:
        """Publish a staged batch in a session."""
        facts = {
            piece.stream_id: PartitionFacts(
                partition=piece.partition, log_start=self.log_start, end=len(self.log[piece.stream_id])
            )
            for piece in attempt.ranges
        }
        output = partial(upserting.insert_output, staged=staged)
        publishing.publish(ledger, attempt, output, facts=facts, filtered_by_difference=False)
        staging_tables.drop(ledger, attempt)

    def _read(self, attempt: Attempt, piece: Range) -> list[int]:
        stream, offsets = piece.stream_id, piece.offsets
        if attempt.kind is BatchKind.REDRIVE:
            return [row[0] for row in read_slice(self.ledger, attempt, stream, offsets.start, offsets.end)]
        return [offset for offset in range(offsets.start, offsets.end) if (stream, offset) not in self.gone]

    def _is_good(self, stream: int, offset: int) -> bool:
        return self.is_fixed or not self.log[stream][offset].is_bad

    def _count(self, attempt: Attempt, stream: int, offsets: Sequence[int]) -> None:
        counted = {"first_read": [min(offsets)], "last_read": [max(offsets)], "n_read": [len(offsets)]}
        zero = {"n_filtered": [0], "n_bytes": [0]}
        self.ledger.run("stage_counts", attempt=attempt.attempt, stream_ids=[stream], **counted, **zero)

    def _stage(self, table: str, stream: int, offset: int) -> int:
        record = self.log[stream][offset]
        row: dict[str, object] = {
            "id": record.key,
            "kafka_offset": offset,
            "tideline_stream": stream,
            "tideline_task": _TASK,
        }
        if record.name is None:
            table = deletions_name(table)
            row |= {"rank": record.rank} if self.target.order_columns else {}
        else:
            row |= {"rank": record.rank, "name": record.name}
        insert = SQL("INSERT INTO {} ({}) VALUES ({})").format(
            Identifier(STAGING_SCHEMA, table),
            SQL(", ").join(map(Identifier, row)),
            SQL(", ").join(SQL("%({})s".replace("{}", name)) for name in row),
        )
        return self.ledger.run_sql(insert, row)

    def table(self) -> dict[int, str]:
        """Return the name of each key in the table."""
        return dict(self._rows("SELECT id, name FROM {}"))

    def marks(self) -> dict[int, int]:
        """Return the offset of the mark of each key."""
        return dict(self._rows("SELECT id, kafka_offset FROM {}", marks=True))

    def _rows(self, text: str, *, marks: bool = False) -> list[tuple[Any, Any]]:
        with self.ledger.transaction():
            table = self.target.marks if marks else self.target.identifier
            return [(row[0], row[1]) for row in self.ledger.rows_of(SQL(text).format(table), {})]

    def reduced(self) -> dict[int, str]:
        """Return the newest name of each key, among the records that are loaded and no rejects, without those deleted."""
        ordered = bool(self.target.upsert and self.target.upsert.order)
        streams = {stream: number for number, stream in enumerate(self.log)}
        newest: dict[int, tuple[tuple[int, int, int], str | None]] = {}
        for (stream, offset), is_written in self.loaded.items():
            record = self.log[stream][offset]
            # Streams of one incarnation are partitions; with an order, offset and then partition decide between equals.
            place = ((record.rank or 0) if ordered else 0, *self._place(stream, streams), offset)
            if is_written and (record.key not in newest or place > newest[record.key][0]):
                newest[record.key] = (place, record.name)
        return {key: name for key, (_, name) in newest.items() if name is not None}

    def _place(self, stream: int, streams: Mapping[int, int]) -> tuple[int]:
        return (streams[stream] // self.partitions,)


def scene(
    ledger: Ledger, incarnations: Sequence[Sequence[Sequence[Rec]]], *, ordered: bool = False, deletes: bool = True
) -> Scene:
    """Create a pipeline with its streams and its table.

    Args:
        ledger: The session.
        incarnations: The records of each partition of each incarnation of the topic.
        ordered: Whether `rank` says which record is newer.
        deletes: Whether tombstones delete.
    """
    number = next(_NUMBERS)
    pipeline = f"upsert_{number}"
    log: dict[int, Sequence[Rec]] = {}
    for partitions in incarnations:
        log |= started(ledger, pipeline, partitions)
    columns = tuple(
        Column(name=name, type_name=kind, precision=None, scale=None, required=False)
        for name, kind in (("id", "bigint"), ("rank", "bigint"), ("name", "text"))
    )
    upsert = Upsert(key=("id",), order=("rank",) if ordered else ())
    target = Target(
        schema="ads",
        table=f"output_{number}",
        columns=columns,
        item=None,
        upsert=upsert,
        deletes=deletes,
    )
    with ledger.transaction():
        ledger.run_sql(SQL(_TABLE).format(table=target.identifier), {})
    upserting.prepare_marks(ledger, target)
    return Scene(ledger=ledger, log=log, target=target, pipeline=pipeline, partitions=len(incarnations[0]))


def started(ledger: Ledger, pipeline: str, partitions: Sequence[Sequence[Rec]]) -> dict[int, Sequence[Rec]]:
    """Start the streams of another incarnation of the topic. Return the records of each."""
    topic = TopicFacts(cluster_id="c", topic="ads", topic_id=uuid4(), compacted=False, partitions=())
    with ledger.transaction():
        reservations.lock_pipeline(ledger, pipeline)
        return {
            reservations.start_stream(
                ledger, pipeline, topic, PartitionFacts(partition=number, log_start=0, end=len(log)), 0
            ).stream_id: log
            for number, log in enumerate(partitions)
        }
