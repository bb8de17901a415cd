"""What the ledger knows of a pipeline's states before a batch is read. The publication requires that it is still so."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise

from tideline.declaration.pipelines import Pipeline
from tideline.errors import NeedsOperatorError
from tideline.ledger import state, state_columns
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger
from tideline.ledger.state import PlannedOffsets, Position
from tideline.ledger.state_columns import StateColumns
from tideline.state.folding import FoldedStream, Planned, watermark
from tideline.state.rules import Rules


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """Positions, columns and the version of the processor, as an attempt has found them."""

    fold: int
    """The number of the pipeline's batch that was folded last."""
    positions: Mapping[int, Position]
    """By stream id."""
    planned: Mapping[int, Sequence[Planned]]
    """By stream id, when the offsets of the batch were planned for the first time."""
    columns: StateColumns
    processor: str
    resets: bool
    """Whether the keys of a stream begin anew where offsets were left out."""

    def streams(self, rules: Rules) -> dict[int, FoldedStream]:
        """Return the streams of the batch as they are when it begins."""
        return {
            stream_id: FoldedStream(
                position.label, watermark(position.max_time, rules.lateness), self.planned[stream_id]
            )
            for stream_id, position in self.positions.items()
        }

    @property
    def anew(self) -> frozenset[str]:
        """Return the streams, by topic and partition, whose stored states do not count any more."""
        return frozenset(one.label for one in self.positions.values() if self.resets and one.has_gap)


def check_kind(pipeline: Pipeline, attempt: Attempt) -> None:
    """Refuse a batch that is not folded although the pipeline is stateful now, or the other way round.

    Raises:
        NeedsOperatorError: It was planned under another declaration, or is a replay or a re-drive.
    """
    if attempt.stateful == (pipeline.state is not None):
        return
    planned, now = ("with", "without") if attempt.stateful else ("without", "with")
    raise NeedsOperatorError(
        f"{attempt} ({attempt.kind}) was planned {planned} a state, and the pipeline is declared {now} one",
        next_step=f"give the batch up: tideline abandon {attempt.batch_id} --reason ...; new records are planned again, and records that the state "
        "has folded are loaded again only when it goes back",
        entry="state-cannot-be-folded",
    )


def found(ledger: Ledger, pipeline: Pipeline, attempt: Attempt, rules: Rules) -> Before:
    """Return what the ledger knows. Called before any record and any state is read.

    Raises:
        FatalError: The stored states do not fit the declaration.
    """
    declared = pipeline.state
    if declared is None:
        raise AssertionError(f"{pipeline.name} is not stateful")
    return Before(
        fold=state.newest_fold(ledger, pipeline.name),
        positions=state.positions(ledger, attempt.batch_id),
        planned={stream_id: _first(plans) for stream_id, plans in state.plans(ledger, attempt.batch_id).items()},
        columns=state_columns.evolved(
            ledger,
            pipeline.name,
            key=[f"{name} {kind}" for name, kind in rules.key.items()],
            columns=declared.columns,
            renamed=declared.renamed,
        ),
        processor=sha256((pipeline.folder / "transform.py").read_bytes()).hexdigest()[:12],
        resets=declared.on_gap == "reset",
    )


def _first(plans: Iterable[PlannedOffsets]) -> list[Planned]:
    """Return when each offset was planned for the first time, in pieces that follow one another."""
    given = list(plans)
    bounds = sorted({bound for plan in given for bound in (plan.offsets.start, plan.offsets.end)})
    return [
        Planned(start, end, min(plan.at for plan in given if plan.offsets.start <= start < plan.offsets.end))
        for start, end in pairwise(bounds)
    ]
