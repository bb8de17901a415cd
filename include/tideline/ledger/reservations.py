"""Read and write the ledger for a plan: one transaction in which a DAG run gets its batches. Called by `flow.plan`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tideline.domain.facts import PartitionFacts, TopicFacts
from tideline.domain.offsets import OffsetRange
from tideline.domain.states import BatchKind, BatchState
from tideline.domain.streams import Stream
from tideline.ledger import session_settings
from tideline.ledger.connection import Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A DAG run that requests batches. A run that requests them twice gets the same ones."""

    dag_id: str
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """What the ledger stores for one range of a planned batch."""

    offsets: OffsetRange
    gaps_allowed: bool
    facts: PartitionFacts


def lock_pipeline(ledger: Ledger, pipeline: str) -> datetime:
    """Lock the pipeline against other plans, decisions and advances until the end of the transaction.

    A transaction that locks both streams and batches takes this lock first. Otherwise two of them could deadlock. It makes
    the pipeline known, as only a plan or a decision may: of a known pipeline, a topic that fits its pattern later begins at
    its first offset.

    Until then the server lets the session idle for longer: brokers are asked. Return the time of the lock, by the database's clock.
    """
    idle_ms = session_settings.ASKING_IDLE_TIMEOUT_MS
    now: datetime = ledger.rows("lock_pipeline", pipeline=pipeline, idle_ms=idle_ms)[0]["now"]
    return now


def lock_known(ledger: Ledger, pipeline: str) -> bool:
    """Lock the pipeline as `lock_pipeline` does, if the ledger knows it. Return whether it does."""
    if not is_known(ledger, pipeline):
        return False
    lock_pipeline(ledger, pipeline)
    return True


def is_known(ledger: Ledger, pipeline: str) -> bool:
    """Return whether the ledger has a pipeline of that name."""
    return bool(ledger.rows("find_pipeline", pipeline=pipeline))


def was_planned_before(ledger: Ledger, pipeline: str) -> bool:
    """Return whether an earlier transaction has planned for this pipeline, even if it found nothing to plan."""
    return bool(ledger.rows("find_pipeline", pipeline=pipeline)[0]["planned_before"])


def batches_of_run(ledger: Ledger, pipeline: str, run: Run) -> list[int]:
    """Return the batches that `run` was given before, in order, without those that were abandoned since."""
    return [
        row["batch_id"]
        for row in ledger.rows("list_run_batches", pipeline=pipeline, dag_id=run.dag_id, run_id=run.run_id)
    ]


def given(ledger: Ledger, pipeline: str, run: Run) -> list[int]:
    """Return all batches that `run` was ever given, also those that were abandoned since."""
    rows = ledger.rows("list_given_batches", pipeline=pipeline, dag_id=run.dag_id, run_id=run.run_id)
    return [row["batch_id"] for row in rows]


def are_finished(ledger: Ledger, batch_ids: Iterable[int]) -> bool:
    """Return whether all of these batches are finished: advanced, superseded or abandoned."""
    return not ledger.rows("list_unfinished", batch_ids=list(batch_ids))


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """A batch that is not published yet."""

    batch_id: int
    kind: BatchKind
    state: BatchState
    run: Run
    """The run that it was planned for."""
    for_heads: bool
    """Whether a head cannot move on without it."""


def open_batches(ledger: Ledger, pipeline: str) -> list[Open]:
    """Return the batches that are not published yet: live ones first, each kind oldest first."""
    return [
        Open(
            batch_id=row["batch_id"],
            kind=BatchKind(row["kind"]),
            state=BatchState(row["state"]),
            run=Run(dag_id=row["dag_id"], run_id=row["run_id"]),
            for_heads=row["for_heads"],
        )
        for row in ledger.rows("list_open_batches", pipeline=pipeline)
    ]


def average_bytes(ledger: Ledger, pipeline: str) -> int | None:
    """Return the average bytes of keys and values per record, over what the pipeline has loaded lately; None before its first batch."""
    average: int | None = ledger.rows("average_bytes", pipeline=pipeline)[0]["average"]
    return average


def streams(ledger: Ledger, pipeline: str) -> list[Stream]:
    """Return the streams of a pipeline. They stay as they are until the end of the transaction if it has locked the pipeline."""
    return [stream_of(row) for row in ledger.rows("list_streams", pipeline=pipeline)]


def stream_of(row: Any) -> Stream:
    """Return the stream that a row of the ledger describes."""
    return Stream(
        stream_id=row["stream_id"],
        cluster_id=row["cluster_id"],
        topic=row["topic"],
        topic_id=row["topic_id"],
        partition=row["partition"],
        start_offset=row["start_offset"],
        next_offset=row["next_offset"],
        accepted_end=row["accepted_end"],
        leader_epoch=row["leader_epoch"],
        retired=row["state"] == "retired",
        reserved=tuple(OffsetRange(start, end) for start, end in row["reserved"]),
        stopped_because=row["stopped_because"],
    )


def start_stream(ledger: Ledger, pipeline: str, topic: TopicFacts, facts: PartitionFacts, start_offset: int) -> Stream:
    """Start a stream for a partition, with its head at `start_offset`."""
    row = ledger.rows(
        "start_stream",
        pipeline=pipeline,
        cluster_id=topic.cluster_id,
        topic=topic.topic,
        topic_id=topic.topic_id,
        partition=facts.partition,
        start_offset=start_offset,
        leader_epoch=facts.leader_epoch,
    )[0]
    return Stream(
        stream_id=row["stream_id"],
        cluster_id=topic.cluster_id,
        topic=topic.topic,
        topic_id=topic.topic_id,
        partition=facts.partition,
        start_offset=start_offset,
        next_offset=start_offset,
        reserved=(),
        stopped_because=None,
        leader_epoch=facts.leader_epoch,
    )


def keep_leader_epochs(ledger: Ledger, looked_at: Iterable[tuple[Stream, PartitionFacts]]) -> None:
    """Store the leader epochs under which logs were seen to hold what was planned.

    Nothing is written for a log without a new leader.
    """
    newer = [
        (stream.stream_id, facts.leader_epoch)
        for stream, facts in looked_at
        if facts.leader_epoch is not None and (stream.leader_epoch is None or facts.leader_epoch > stream.leader_epoch)
    ]
    if newer:
        ledger.run(
            "keep_leader_epochs",
            stream_ids=[stream_id for stream_id, _ in newer],
            leader_epochs=[epoch for _, epoch in newer],
        )


def stop_stream(ledger: Ledger, stream_id: int, because: str) -> None:
    """Stop a stream until an operator decides. Its head does not move."""
    ledger.run("stop_stream", stream_id=stream_id, because=because)


def reserve(
    ledger: Ledger,
    pipeline: str,
    run: Run,
    kind: BatchKind,
    batches: Iterable[Mapping[int, Reservation]],
    *,
    reason: str | None = None,
    supersedes: int | None = None,
    outside: bool = False,
    stateful: bool = False,
) -> list[int]:
    """Insert batches with their ranges (by stream id) and return their ids, in order.

    `outside`: for a sink outside of the ledger's database. `stateful`: its records are folded into the pipeline's state.
    """
    wanted = list(batches)
    if not wanted:
        return []
    rows = ledger.rows(
        "plan_batches",
        pipeline=pipeline,
        kind=kind,
        dag_id=run.dag_id,
        run_id=run.run_id,
        supersedes=supersedes,
        reason=reason,
        outside=outside,
        stateful=stateful,
        n_batches=len(wanted),
    )
    planned = sorted(row["batch_id"] for row in rows)
    _reserve_ranges(ledger, zip(planned, wanted, strict=True))
    return planned


def _reserve_ranges(ledger: Ledger, batches: Iterable[tuple[int, Mapping[int, Reservation]]]) -> None:
    """Insert all ranges in one statement. Otherwise sessions that wait for these streams would wait for one round trip per range."""
    pieces = [
        (batch_id, stream_id, piece) for batch_id, ranges in batches for stream_id, piece in sorted(ranges.items())
    ]
    ledger.run(
        "reserve_ranges",
        batch_ids=[batch_id for batch_id, _, _ in pieces],
        stream_ids=[stream_id for _, stream_id, _ in pieces],
        starts=[piece.offsets.start for _, _, piece in pieces],
        ends=[piece.offsets.end for _, _, piece in pieces],
        gaps_allowed=[piece.gaps_allowed for _, _, piece in pieces],
        log_starts=[piece.facts.log_start for _, _, piece in pieces],
        log_ends=[piece.facts.end for _, _, piece in pieces],
    )


def join_run(ledger: Ledger, pipeline: str, run: Run, batch_ids: Iterable[int]) -> None:
    """Add batches to those that `run` works on, in order, after those that it already has."""
    if given := list(batch_ids):
        ledger.run("join_run", pipeline=pipeline, dag_id=run.dag_id, run_id=run.run_id, batch_ids=given)


def take_rejects(ledger: Ledger, batch_ids: Sequence[int], *, of_batch: int | None, reason_like: str | None) -> None:
    """Assign to re-drives the rejects within their ranges: of one batch, of reasons that contain a text, or all."""
    ledger.run("plan_redrive", batch_ids=list(batch_ids), of_batch=of_batch, reason_like=reason_like)
