"""upkeep: delete what crashes leave behind. Correctness does not depend on it, and it never touches coverage or output."""

from tideline.declaration.pipelines import Pipeline
from tideline.ledger import cleanup, rewinds
from tideline.ledger.connection import Ledger
from tideline.sinks import kinds
from tideline.sinks.kafka import dead_letters


def upkeep(ledger: Ledger, pipeline: Pipeline) -> list[str]:
    """Fail attempts whose heartbeat is too old, drop dead staging, delete old events, marks and undo, and send dead letters that are left.

    Returns:
        One line for each thing done.

    Raises:
        RetryableError: The ledger, or the pipeline's sink, did not answer.
        NeedsOperatorError: The pipeline's output must exist and does not.
    """
    return [
        *cleanup.expire_claims(ledger, pipeline.name),
        *cleanup.drop_staging(ledger, pipeline.name),
        *cleanup.prune_events(ledger, pipeline.name, pipeline.upkeep.events_days),
        *_prune_marks(ledger, pipeline),
        *_prune_undo(ledger, pipeline),
        *dead_letters.send(ledger, pipeline),
        *kinds.of(pipeline).upkeep(pipeline, ledger),
    ]


def _prune_undo(ledger: Ledger, pipeline: Pipeline) -> list[str]:
    return [] if pipeline.state is None else rewinds.prune(ledger, pipeline.name, pipeline.state.undo_batches)


def send_letters(ledger: Ledger, pipeline: Pipeline) -> list[str]:
    """Send the rejects of published batches to the topic that the pipeline declares for them. Return one line for each batch.

    A failure is a line as well: the batches are loaded, and the next call sends what this one has left.
    """
    return dead_letters.send(ledger, pipeline)


def _prune_marks(ledger: Ledger, pipeline: Pipeline) -> list[str]:
    if pipeline.sink.marks is None:
        return []
    schema, table = pipeline.sink.marks.split(".")
    return cleanup.prune_marks(ledger, pipeline.name, schema, table)
