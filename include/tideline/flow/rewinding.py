"""rewind: take a stateful pipeline back to the end of a batch, and plan what came after it again.

One transaction: state, positions, output, rejects and coverage go back together, and the same ranges are planned again
in order. Then every run of the pipeline loads them first. A DAG run that rewinds gets them itself, and goes back once: a
task that is tried again or cleared would else undo what the run has loaded since.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tideline.declaration.pipelines import Pipeline
from tideline.domain.states import BatchKind
from tideline.errors import FatalError
from tideline.flow import surveying
from tideline.flow.batch_decisions import deciding
from tideline.flow.surveying import Survey
from tideline.kafka.broker import Broker
from tideline.ledger import abandoning, decisions, reservations, rewinds
from tideline.ledger.connection import Ledger
from tideline.ledger.reservations import Run
from tideline.ledger.rewinds import FoldedBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewound:
    """What a rewind has done, or would do."""

    undone: tuple[int, ...]
    """The batches that were undone, newest first; none if the run has rewound before."""
    abandoned: tuple[int, ...]
    """The open batches that were given up."""
    planned: tuple[int, ...]
    """The batches over the same ranges, in order."""
    n_rows: int
    """How many rows were deleted from the output."""

    def describe(self, *, dry_run: bool) -> list[str]:
        """Return what was undone, or would be, for a log or a page."""
        listed = ", ".join(map(str, reversed(self.undone)))
        batches, one = ("batch", "is") if len(self.undone) == 1 else ("batches", "are")
        would, note = ("would be", " (a dry run)") if dry_run else (one, "")
        given_up = "would be" if dry_run else "is"
        rows = f"{self.n_rows:,} row{'' if self.n_rows == 1 else 's'}"
        return [
            f"{batches} {listed} {would} undone, with {rows} of the output{note}",
            f"{len(self.planned)} {batches} over the same offsets {would} planned, in order",
            *(f"batch {batch_id} {given_up} abandoned; its offsets are planned again" for batch_id in self.abandoned),
        ]


def rewind(
    ledger: Ledger,
    broker: Broker,
    pipeline: Pipeline,
    to_batch: int,
    *,
    reason: str,
    dry_run: bool = False,
    run: Run | None = None,
) -> Rewound:
    """Go back to the end of a batch, or to the beginning if `to_batch` is 0. With `dry_run`, change nothing.

    Args:
        ledger: The ledger's session.
        broker: The pipeline's source.
        pipeline: What goes back.
        to_batch: The last batch that stays as it is.
        reason: Stored in the history.
        dry_run: Whether to say only what would happen.
        run: The DAG run that loads what is planned, and rewinds at most once; None if an operator rewinds without a run.

    Raises:
        FatalError: The pipeline has no state, the batch is not folded, nothing was folded after it, its undo was pruned, Kafka no longer holds the
            records after it, an attempt is writing, or the reason is blank. The message names the earliest batch to which it can go back.
        RetryableError: The broker or the ledger did not answer. Nothing was changed.
    """
    if pipeline.state is None:
        raise FatalError(
            f"{pipeline.name}: only a pipeline with a state is rewound, and its declaration has no section `state`",
            next_step=f"load batches, ranges or a window again: tideline replay {pipeline.name} ...; nothing was changed",
            entry="cannot-rewind",
        )
    with deciding(ledger, pipeline.name, reason, dry_run=dry_run) as now:
        if run is not None and reservations.given(ledger, pipeline.name, run):
            return _repeated(ledger, pipeline.name, run)
        found = surveying.survey(ledger, broker, pipeline, now)
        decisions.set_reason(ledger, reason)
        decisions.set_retired(ledger, pipeline.name, retired=False)  # as in a plan
        return _rewind(ledger, pipeline, found, to_batch or None, reason=reason, run=run)


def _repeated(ledger: Ledger, pipeline: str, run: Run) -> Rewound:
    """Return the batches that a run has left of those that its rewind has planned."""
    again = reservations.batches_of_run(ledger, pipeline, run)
    return Rewound(undone=(), abandoned=(), planned=tuple(again), n_rows=0)


def _rewind(
    ledger: Ledger, pipeline: Pipeline, found: Survey, to_batch: int | None, *, reason: str, run: Run | None
) -> Rewound:
    opened = [batch.batch_id for batch in reservations.open_batches(ledger, pipeline.name)]
    for batch_id in opened:  # before the folded batches are listed: an open one may be published meanwhile
        abandoning.abandon(ledger, batch_id)
    after = rewinds.after(ledger, pipeline.name, to_batch)
    _check(pipeline, found, after, to_batch)
    undone = [one.batch_id for one in after]
    rewind_id = rewinds.undo(ledger, pipeline.name, undone, to_batch=to_batch, reason=reason)
    n_rows = rewinds.delete_rows(ledger, pipeline.table_sink.table, undone)
    run = run or Run(dag_id="tideline", run_id=f"rewind {rewind_id}")
    again = [
        {stream_id: found.reservation(pipeline, stream_id, offsets) for stream_id, offsets in one.ranges.items()}
        for one in reversed(after)
    ]
    planned = reservations.reserve(ledger, pipeline.name, run, BatchKind.BACKFILL, again, reason=reason, stateful=True)
    reservations.join_run(ledger, pipeline.name, run, planned)
    return Rewound(undone=tuple(undone), abandoned=tuple(opened), planned=tuple(planned), n_rows=n_rows)


def _check(pipeline: Pipeline, found: Survey, after: Sequence[FoldedBatch], to_batch: int | None) -> None:
    if not after:
        raise FatalError(
            f"{pipeline.name}: no batch was folded after {f'batch {to_batch}' if to_batch else 'the beginning'}",
            next_step=f"look at the batches: tideline batches {pipeline.name}; nothing was changed",
            entry="cannot-rewind",
        )
    for one in after:
        problem = "its undo was pruned (state.undo_batches)" if not one.has_undo else _unreadable(found, one)
        if problem:
            # The newest batch is no boundary: there is nothing after it.
            earliest = f"go back to it, which is the earliest: tideline rewind {pipeline.name} --to-batch {one.batch_id} --reason ..."
            raise FatalError(
                f"{pipeline.name}: cannot go back to before batch {one.batch_id}: {problem}",
                next_step=f"{earliest if one is not after[0] else 'it is the newest one, so the pipeline can only go on'}; nothing was changed",
                entry="cannot-rewind",
            )


def _unreadable(found: Survey, one: FoldedBatch) -> str | None:
    """Return why the records of a batch cannot be loaded again; None if they can."""
    for stream_id, offsets in one.ranges.items():
        if stream_id not in found.ready:
            return f"{one.labels[stream_id]} {offsets} cannot be read: that stream is stopped, or its topic is gone"
        stream, _, facts = found.ready[stream_id]
        if offsets.start < facts.log_start or offsets.end > facts.end:
            return f"of {stream.label} {offsets} Kafka holds [{facts.log_start}, {facts.end}) only"
    return None
