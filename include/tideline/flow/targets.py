"""Find what a plan may reserve for a request: a window of time, explicit ranges, a batch, rejects. Called within the plan's transaction."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter

from tideline.declaration.pipelines import Pipeline
from tideline.domain.facts import PartitionFacts
from tideline.domain.offsets import OffsetRange, subtract, union
from tideline.domain.requests import KeptRejects, OneBatch, Ranges
from tideline.domain.states import BatchKind, BatchState
from tideline.errors import FatalError
from tideline.flow.surveying import Survey
from tideline.ledger import attempts, decisions, redrives
from tideline.ledger.connection import Ledger
from tideline.ledger.decisions import Owner
from tideline.ledger.reservations import Reservation

Wanted = Sequence[tuple[int, OffsetRange]]
"""Offset ranges, each with its stream id."""


@dataclass(frozen=True, slots=True)
class Shares:
    """The requested offsets, by what must be done with them."""

    missing: dict[int, list[OffsetRange]] = field(default_factory=dict)
    """By stream id, ranges that no batch has: for a backfill."""
    loaded: dict[int, list[OffsetRange]] = field(default_factory=dict)
    """By stream id, ranges that a batch has loaded: for a replay."""
    notes: list[str] = field(default_factory=list)
    """Why some of the offsets are left alone."""


def share(
    ledger: Ledger, found: Survey, wanted: Wanted, *, replace: bool, outside: bool, given: Collection[int] = ()
) -> Shares:
    """Sort wanted ranges of ready streams by their present owners, for a sink that is `outside` or not.

    Batches in `given`, which the run has anyway, need no note.
    """
    shares = Shares()
    owned: dict[int, list[Owner]] = {}
    for owner in decisions.owners(ledger, wanted):
        owned.setdefault(owner.stream_id, []).append(owner)
    for stream_id, piece in wanted:
        label = found.ready[stream_id][0].label
        owners = [
            owner for owner in owned.get(stream_id, []) if owner.batch_id is not None and owner.offsets.overlaps(piece)
        ]
        free = list(subtract(piece, (owner.offsets for owner in owners)))
        if free:
            shares.missing[stream_id] = union([*shares.missing.get(stream_id, []), *free])
        replaced = [owner.offsets for owner in owners if replace and _why_not(owner) is None]
        for other in decisions.held_alone(ledger, [(stream_id, offsets) for offsets in replaced], outside=outside):
            replaced = [rest for offsets in replaced for rest in subtract(offsets, [other.offsets])]
            if other.batch_id not in given:
                shares.notes.append(f"{label} {other.offsets}: {_held(other)}")
        if replaced:
            shares.loaded[stream_id] = union([*shares.loaded.get(stream_id, []), *replaced])
        for owner in owners:
            if owner.batch_id not in given and (not replace or _why_not(owner) is not None):
                why = _why_not(owner) or f"loaded by batch {owner.batch_id}; say `replace` to load it again"
                shares.notes.append(f"{label} {owner.offsets}: {why}")
    return shares


def _why_not(owner: Owner) -> str | None:
    """Return why an owner's offsets cannot be replaced, or None if they can."""
    if owner.is_open:
        return f"batch {owner.batch_id} is {owner.state} and will load it"
    if owner.kind is BatchKind.LIVE and owner.state is BatchState.PUBLISHED:
        return f"batch {owner.batch_id} is published, and the heads have not passed it; let its run advance first"
    return None


def _held(owner: Owner) -> str:
    return f"batch {owner.batch_id}, a {owner.kind}, is {owner.state}: ask again when it is published or abandoned"


def named(found: Survey, request: Ranges) -> list[tuple[int, OffsetRange]]:
    """Return explicit ranges with the ids of their streams.

    Raises:
        FatalError: Some ranges name partitions that cannot be read. The message lists all of these ranges.
    """
    streams = {(stream.topic, stream.partition): stream.stream_id for stream, _, _ in found.ready.values()}
    stopped = {stream.label: problem for stream, problem in found.comparison.inconsistent}
    stopped |= {stream.label: str(stream.stopped_because) for stream in found.comparison.stopped}
    problems = []
    wanted = []
    for piece in request.ranges:
        stream_id = streams.get((piece.topic, piece.partition))
        label = f"{piece.topic}/{piece.partition}"
        if stream_id is not None:
            wanted.append((stream_id, piece.offsets))
        elif label in stopped:
            problems.append(f"{piece}: the stream is stopped: {stopped[label]}")
        else:
            known = ", ".join(sorted(f"{topic}/{partition}" for topic, partition in streams)) or "none"
            problems.append(f"{piece}: no such partition; the pipeline reads {known[:500]}")
    _refuse(problems)
    return wanted


def check_held(found: Survey, shares: Shares) -> None:
    """Make sure that Kafka holds the offsets that must be read. Offsets that are loaded and not replaced may be gone.

    Raises:
        FatalError: Kafka does not hold some of them. The message says what it still holds.
    """
    problems = []
    for stream_id, piece in sorted(
        (stream_id, piece)
        for part in (shares.missing, shares.loaded)
        for stream_id, pieces in part.items()
        for piece in pieces
    ):
        stream, _, facts = found.ready[stream_id]
        if piece.start < facts.log_start or piece.end > facts.end:
            holds = f"[{facts.log_start}, {facts.end})" if facts.end > facts.log_start else "nothing"
            problems.append(f"{stream.label} {piece}: Kafka holds {holds} of this partition")
    _refuse(problems)


def check_replay(pipeline: Pipeline, shares: Shares) -> None:
    """Make sure that the output can be loaded again where something is to be replaced.

    Raises:
        FatalError: The output is a topic, and its declaration does not say that a replay may append.
    """
    if shares.loaded and pipeline.sink.refuses_replays:
        raise FatalError(
            f"{pipeline.name}: a topic cannot replace records: a replay would append them to {pipeline.sink.output} once more",
            next_step="leave it; or, if its readers can bear that, declare sink.replay: append; nothing was planned",
            entry="replay-is-refused",
        )


def _refuse(problems: Sequence[str]) -> None:
    if problems:
        raise FatalError(
            "the requested offsets cannot be read:\n    " + "\n    ".join(problems),
            next_step="request ranges that Kafka still holds; nothing was planned",
            entry="offsets-not-in-kafka",
        )


def is_open(ledger: Ledger, pipeline: Pipeline, request: OneBatch) -> bool:
    """Return whether the batch is open. The run then joins it with its ranges.

    Raises:
        FatalError: The batch is not one of the pipeline's, or it is a re-drive that is not open any more.
    """
    batch = attempts.find(ledger, request.batch_id)
    if batch is None or batch["pipeline"] != pipeline.name:
        found = f"it belongs to {batch['pipeline']}" if batch else "the ledger does not have it"
        raise FatalError(
            f"{pipeline.name}: expected batch {request.batch_id} to be one of this pipeline's, but {found}",
            next_step=f"look for it: tideline batches {pipeline.name}",
            entry="no-such-batch",
        )
    if BatchState(batch["state"]) in {BatchState.PLANNED, BatchState.WRITING, BatchState.FAILED}:
        return True
    if batch["kind"] == BatchKind.REDRIVE:
        raise FatalError(
            f"batch {request.batch_id} re-drove rejects: it has no offsets of its own to load again",
            next_step="replay the batch that had rejected them, or re-drive what is still rejected",
            entry="no-such-batch",
        )
    return False


def of_batch(ledger: Ledger, found: Survey, request: OneBatch) -> list[tuple[int, OffsetRange]]:
    """Return the ranges of a batch that is not open any more.

    Raises:
        FatalError: One of its streams cannot be read any more.
    """
    problems = []
    wanted = []
    for piece in attempts.ranges(ledger, request.batch_id):
        if piece.stream_id in found.ready:
            wanted.append((piece.stream_id, piece.offsets))
        else:
            problems.append(
                f"{piece}: the ledger follows topic id {piece.topic_id}, which the brokers do not have, or the stream is stopped"
            )
    _refuse(problems)
    return wanted


def rejects(ledger: Ledger, pipeline: Pipeline, request: KeptRejects) -> list[dict[int, Reservation]]:
    """Return the rejects to decode again, as batches. A range spans the first to the last reject of a stream; most of its offsets are gaps.

    Kafka is not read. No batch holds two incarnations of a topic, because the writer identifies a record by topic and partition only.
    """
    rows = redrives.parts(
        ledger,
        pipeline.name,
        of_batch=request.batch_id,
        reason_like=request.reason_like,
        size=pipeline.limits.batch_records,
    )
    return [
        {row["stream_id"]: _reservation(OffsetRange(row["start_offset"], row["end_offset"])) for row in part}
        for _, part in groupby(rows, key=itemgetter("incarnation", "part"))
    ]


def without_held(
    ledger: Ledger, batches: Sequence[dict[int, Reservation]], *, outside: bool
) -> tuple[list[dict[int, Reservation]], list[str]]:
    """Return the re-drives that no open replay or re-drive is in the way of, and notes about the others."""
    free, notes = [], []
    for batch in batches:
        others = decisions.held_alone(
            ledger, ((stream_id, piece.offsets) for stream_id, piece in batch.items()), outside=outside
        )
        if others:
            notes += [f"rejects of stream {other.stream_id} {other.offsets}: {_held(other)}" for other in others]
        else:
            free.append(batch)
    return free, notes


def _reservation(offsets: OffsetRange) -> Reservation:
    facts = PartitionFacts(partition=0, log_start=offsets.start, end=offsets.end)
    return Reservation(offsets=offsets, gaps_allowed=True, facts=facts)
