"""Planning's share of the ledger: one transaction in which a DAG run gets its batches. Called by `flow.plan`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tideline.domain.facts import PartitionFacts, TopicFacts
from tideline.domain.offsets import OffsetRange
from tideline.domain.states import BatchKind
from tideline.domain.streams import Stream
from tideline.ledger.connection import Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A DAG run: who asks for batches. The same run that asks twice gets the same ones."""

    dag_id: str
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """What one range needs to be written into the ledger."""

    offsets: OffsetRange
    gaps_allowed: bool
    facts: PartitionFacts


def lock_pipeline(ledger: Ledger, pipeline: str) -> None:
    """Take the turn of this pipeline's planners until the end of the transaction."""
    ledger.rows("lock_pipeline", pipeline=pipeline)


def was_planned_before(ledger: Ledger, pipeline: str) -> bool:
    """Whether an earlier transaction has planned for this pipeline, whatever it found."""
    return bool(ledger.rows("find_pipeline", pipeline=pipeline)[0]["planned_before"])


def batches_of_run(ledger: Ledger, pipeline: str, run: Run) -> list[int]:
    """The batches that `run` was given before, in order, without those that were abandoned since."""
    return [
        row["batch_id"]
        for row in ledger.rows("list_run_batches", pipeline=pipeline, dag_id=run.dag_id, run_id=run.run_id)
    ]


def are_through(ledger: Ledger, batch_ids: Iterable[int]) -> bool:
    """Whether nothing is left to do for any of these batches."""
    return not ledger.rows("list_unfinished", batch_ids=list(batch_ids))


def open_batches(ledger: Ledger, pipeline: str, *, kind: BatchKind | None = None) -> list[int]:
    """Batches that somebody still has to write, oldest first; of one kind, or of all."""
    rows = ledger.rows("list_open_batches", pipeline=pipeline)
    return [row["batch_id"] for row in rows if kind is None or row["kind"] == kind]


def average_bytes(ledger: Ledger, pipeline: str) -> int | None:
    """Bytes of keys and values per record, over what the pipeline has loaded lately; None before its first batch."""
    average: int | None = ledger.rows("average_bytes", pipeline=pipeline)[0]["average"]
    return average


def streams(ledger: Ledger, pipeline: str) -> list[Stream]:
    """The streams of a pipeline, locked until the end of the transaction."""
    return [
        Stream(
            stream_id=row["stream_id"],
            cluster_id=row["cluster_id"],
            topic=row["topic"],
            topic_id=row["topic_id"],
            partition=row["partition"],
            start_offset=row["start_offset"],
            next_offset=row["next_offset"],
            accepted_end=row["accepted_end"],
            retired=row["state"] == "retired",
            reserved=tuple(OffsetRange(start, end) for start, end in row["reserved"]),
            stopped_because=row["stopped_because"],
        )
        for row in ledger.rows("list_streams", pipeline=pipeline)
    ]


def start_stream(ledger: Ledger, pipeline: str, topic: TopicFacts, partition: int, start_offset: int) -> Stream:
    """Begin to follow a partition; its head stands at `start_offset`."""
    row = ledger.rows(
        "start_stream",
        pipeline=pipeline,
        cluster_id=topic.cluster_id,
        topic=topic.topic,
        topic_id=topic.topic_id,
        partition=partition,
        start_offset=start_offset,
    )[0]
    return Stream(
        stream_id=row["stream_id"],
        cluster_id=topic.cluster_id,
        topic=topic.topic,
        topic_id=topic.topic_id,
        partition=partition,
        start_offset=start_offset,
        next_offset=start_offset,
        reserved=(),
        stopped_because=None,
    )


def stop_stream(ledger: Ledger, stream_id: int, because: str) -> None:
    """Stop a stream until a person decides; its head stays where it is."""
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
) -> list[int]:
    """Write batches with their ranges (by stream id) and return their ids, in order."""
    planned = []
    for ranges in batches:
        batch_id = ledger.rows(
            "plan_batch",
            pipeline=pipeline,
            kind=kind,
            dag_id=run.dag_id,
            run_id=run.run_id,
            supersedes=supersedes,
            reason=reason,
        )[0]["batch_id"]
        for stream_id, reservation in sorted(ranges.items()):
            ledger.run(
                "reserve_range",
                batch_id=batch_id,
                stream_id=stream_id,
                start=reservation.offsets.start,
                end=reservation.offsets.end,
                gaps_allowed=reservation.gaps_allowed,
                log_start=reservation.facts.log_start,
                log_end=reservation.facts.end,
            )
        planned.append(batch_id)
    return planned


def join_run(ledger: Ledger, pipeline: str, run: Run, batch_ids: Iterable[int]) -> None:
    """Record what `run` works on, in order, behind what it has."""
    for batch_id in batch_ids:
        ledger.run("join_run", pipeline=pipeline, dag_id=run.dag_id, run_id=run.run_id, batch_id=batch_id)


def take_rejects(ledger: Ledger, batch_id: int, chosen: Sequence[tuple[int, int]]) -> None:
    """Say which rejects, by stream id and offset, a re-drive takes."""
    ledger.run(
        "plan_redrive",
        batch_id=batch_id,
        stream_ids=[stream_id for stream_id, _ in chosen],
        offsets=[offset for _, offset in chosen],
    )
