"""What the ledger knows of a pipeline's states before a batch is read. The publication requires that it is still so."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from spark_jobs.state.folding import Stream, watermark
from spark_jobs.state.rules import Rules
from tideline.declaration.pipelines import Pipeline
from tideline.errors import NeedsOperatorError
from tideline.ledger import state, state_columns
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger
from tideline.ledger.state import Position
from tideline.ledger.state_columns import StateColumns


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """Positions, columns and the version of the processor, as an attempt has found them."""

    fold: int
    """The number of the pipeline's batch that was folded last."""
    positions: Mapping[int, Position]
    """By stream id."""
    columns: StateColumns
    processor: str
    resets: bool
    """Whether the keys of a stream begin anew where offsets were left out."""

    def streams(self, rules: Rules) -> dict[int, Stream]:
        """Return the streams of the batch as they are when it begins."""
        return {
            stream_id: Stream(position.label, watermark(position.max_time, rules.lateness))
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
