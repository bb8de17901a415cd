"""Plan batches of a stateful pipeline, so that each one can be folded after those before it. Called by `planning`.

The law: a batch is written when everything before it on each of its streams is folded. Two batches that each had
offsets before the other's would both wait for ever. So what lies before offsets that are reserved already is planned in
batches of one piece each.
"""

from tideline.declaration import Pipeline
from tideline.domain.offsets import OffsetRange
from tideline.domain.states import BatchKind
from tideline.errors import FatalError, NeedsOperatorError
from tideline.flow.surveying import Free, PlanCall, Survey
from tideline.flow.targets import Shares
from tideline.ledger import folding_turns, reservations


def plan(call: PlanCall, found: Survey, free: Free, *, run_batches: int | None) -> list[int]:
    """Reserve what a rewind has left, and the free ranges behind the heads. Return all open batches of the pipeline in the order of folding.

    Raises:
        NeedsOperatorError: The pipeline has loaded records that its state can never fold. Or Kafka no longer holds what a rewind has left.
    """
    _check_all_is_folded(call)
    opened = [batch.batch_id for batch in reservations.open_batches(call.ledger, call.pipeline.name)]
    new = []
    for stream_id, piece in folding_turns.rewound(call.ledger, call.pipeline.name):
        if stream_id in found.ready:
            _check_held(call.pipeline.name, found, stream_id, piece)
            new += call.reserve(BatchKind.BACKFILL, found, {stream_id: [piece]})
    before, after = _divided(found, free)
    for stream_id, piece in before:
        new += call.reserve(BatchKind.LIVE, found, {stream_id: [piece]})
    new += call.reserve(BatchKind.LIVE, found, after, run_batches=run_batches)
    return folding_turns.in_order(call.ledger, [*opened, *new])


def _check_all_is_folded(call: PlanCall) -> None:
    """Refuse to begin a state behind records that were loaded without it: it would be the fold over a part of the records only."""
    name = call.pipeline.name
    if unfolded := folding_turns.unfolded(call.ledger, name):
        raise NeedsOperatorError(
            f"{name}: records were loaded without being folded into its state, which is declared now: {', '.join(unfolded)[:500]}",
            next_step="declare the state in a pipeline of another name, with another table: it loads the topic from the beginning; or take the "
            "section `state` away again; nothing was planned",
            entry="state-cannot-be-folded",
        )


def _check_held(pipeline: str, found: Survey, stream_id: int, piece: OffsetRange) -> None:
    """Make sure that Kafka still holds what a rewind has left.

    Raises:
        NeedsOperatorError: It does not. Nothing after these offsets can be folded before an operator decides about them.
    """
    stream, _, facts = found.ready[stream_id]
    if piece.start < facts.log_start or piece.end > facts.end:
        raise NeedsOperatorError(
            f"{pipeline}: {stream.label} {piece} was rewound, and Kafka holds [{facts.log_start}, {facts.end}) of it only: it cannot be loaded again",
            next_step=f"leave out what is gone: tideline skip {pipeline} '{stream.label} {piece}' --reason ...; nothing was planned",
            entry="state-is-folded-in-order",
        )


def _divided(found: Survey, free: Free) -> tuple[list[tuple[int, OffsetRange]], Free]:
    """Return the pieces with reserved offsets after them on their stream, and the others."""
    before, after = [], {}
    for stream_id, pieces in free.items():
        reserved = found.ready[stream_id][0].reserved
        last = max((piece.start for piece in reserved), default=0)
        before += [(stream_id, piece) for piece in pieces if piece.start < last]
        after[stream_id] = [piece for piece in pieces if piece.start >= last]
    return before, after


def check_targets(pipeline: Pipeline, found: Survey, shares: Shares) -> None:
    """Refuse to load past offsets: their records are folded already, or would be folded after later ones.

    Raises:
        FatalError: Some of the requested offsets lie behind the state.
    """
    if pipeline.state is not None and (shares.missing or shares.loaded):
        labels = {stream_id: found.ready[stream_id][0].label for stream_id in found.ready}
        pieces = [
            f"{labels[stream_id]} {piece}"
            for part in (shares.missing, shares.loaded)
            for stream_id, ranges in sorted(part.items())
            for piece in ranges
        ]
        raise refused(pipeline.name, f"past offsets ({', '.join(pieces)[:500]})")


def refused(pipeline: str, what: str) -> FatalError:
    """Return the error for records that a stateful pipeline cannot load by themselves."""
    return FatalError(
        f"{pipeline}: {what} cannot be loaded by themselves: the pipeline has a state, in which records are folded in the order of their offsets",
        next_step=f"go back to the batch before them, and load everything since again: tideline rewind {pipeline} --to-batch N --reason ...; "
        "nothing was planned",
        entry="state-is-folded-in-order",
    )
