"""recreate_table: begin a Delta table anew that was removed on purpose. An operator's decision, with a reason."""

from tideline import outside
from tideline.declaration.pipelines import Pipeline
from tideline.errors import FatalError
from tideline.flow.operator_decisions import deciding
from tideline.ledger import decisions
from tideline.ledger.connection import Ledger
from tideline.outside import evidence


def recreate_table(ledger: Ledger, pipeline: Pipeline, *, reason: str) -> bool:
    """Create the Delta table of a pipeline anew, empty, where none is. Return whether none was.

    Without this decision a table that the ledger knows and that is not there is refused: its storage may not be mounted. The next batch gives the
    table its columns. What was in the removed table comes back by replays.

    Raises:
        FatalError: The output is no Delta table, no attempt was to commit to it yet, or the reason is blank.
        RetryableError: The storage or the ledger did not answer. Calling it again is harmless.
    """
    output = pipeline.sink.output
    if pipeline.sink.kind != "delta":
        raise FatalError(
            f"{pipeline.name}: expected a Delta table as output, found {output}",
            next_step="kafka-topics.sh --create creates a topic, and target.sql a table of Postgres",
            entry="delta-table-is-missing",
        )
    if evidence.of(ledger, pipeline)() is None:
        raise FatalError(
            f"{pipeline.name}: expected {output} to be written already, found that no attempt was to commit to it",
            next_step="nothing: the next batch creates the table",
            entry="delta-table-is-missing",
        )
    with deciding(ledger, pipeline.name, reason):
        decisions.set_reason(ledger, reason)
        created = outside.recreate(pipeline)
        if created:
            decisions.record_recreated(ledger, pipeline.name, output)
    return created
