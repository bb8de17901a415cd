"""Decisions of an operator about a pipeline and its output: retire it, move or free its output, begin its table anew."""

from tideline.declaration.pipelines import Pipeline
from tideline.errors import FatalError
from tideline.flow.batch_decisions import deciding
from tideline.flow.claiming import outputs
from tideline.kafka.broker import Broker
from tideline.ledger import claimed_outputs, decisions, reservations
from tideline.ledger.connection import Ledger
from tideline.sinks import evidence, kinds


def check_known(ledger: Ledger, pipeline: str) -> None:
    """Check that the ledger knows a pipeline, before a decision about it makes it known.

    Raises:
        FatalError: It does not.
    """
    with ledger.transaction():
        known = reservations.is_known(ledger, pipeline)
    if not known:
        raise FatalError(
            f"expected a pipeline that the ledger knows, found {pipeline!r}",
            next_step="check the name: tideline pipelines",
            entry="no-such-pipeline",
        )


def retire(ledger: Ledger, pipeline: str, *, reason: str, back: bool = False, dry_run: bool = False) -> bool:
    """Leave a pipeline out of lists and numbers as long as no folder declares it, or with `back` show it again. Return whether that is new.

    Nothing of it is deleted, and what is asked for by its name is still shown. The next plan of it brings it back, so nothing that loads is out of
    sight. With `dry_run`, change nothing.

    Raises:
        FatalError: The ledger does not know the pipeline, batches of it are open, or the reason is blank.
    """
    check_known(ledger, pipeline)
    with deciding(ledger, pipeline, reason, dry_run=dry_run):
        decisions.set_reason(ledger, reason)
        opened = [] if back else sorted(batch.batch_id for batch in reservations.open_batches(ledger, pipeline))
        if opened:
            raise FatalError(
                f"{pipeline}: expected no open batches of a pipeline that retires, found {', '.join(map(str, opened))}",
                next_step=f"with its folder in place, give them up first: tideline abandon {opened[0]} --reason ...",
                entry="pipeline-does-not-retire",
            )
        return decisions.set_retired(ledger, pipeline, retired=not back)


def free_output(ledger: Ledger, pipeline: str, *, reason: str) -> list[str]:
    """Release the outputs of a pipeline that was given up, so that other pipelines can claim them, and return what they are called.

    What is in them stays. A later plan of the pipeline claims them again.

    Raises:
        FatalError: The ledger does not know the pipeline, it has no output, batches of it are open, or the reason is blank.
    """
    check_known(ledger, pipeline)
    with deciding(ledger, pipeline, reason):
        decisions.set_reason(ledger, reason)
        return claimed_outputs.free(ledger, pipeline)


def move_output(
    ledger: Ledger, broker: Broker, pipeline: Pipeline, *, reason: str, dry_run: bool = False
) -> tuple[str | None, str]:
    """Let a pipeline write to the output that it declares now. Return the former one, which may be this one, and this one.

    What the former one holds stays there, and the former one is free for others. There is none, and nothing to move, before the first plan that
    claims an output. With `dry_run`, change nothing.

    Raises:
        FatalError: The ledger does not know the pipeline, a batch of it is being written or may be in the former output, another pipeline has the
            output, or the reason is blank.
        RetryableError: The brokers of a topic or the ledger did not answer.
    """
    check_known(ledger, pipeline.name)
    claimed = outputs(pipeline, broker)
    with deciding(ledger, pipeline.name, reason, dry_run=dry_run):
        decisions.set_reason(ledger, reason)
        return claimed_outputs.move(ledger, pipeline.name, claimed), str(claimed[0])


def recreate_table(ledger: Ledger, pipeline: Pipeline, *, reason: str) -> bool:
    """Create the Delta table of a pipeline anew, empty, where none is. Return whether none was.

    Without this decision a table that the ledger knows and that is not there is refused: its storage may not be mounted. The next batch gives the
    table its columns. What was in the removed table comes back by replays.

    Raises:
        FatalError: The output is no Delta table, no attempt was to commit to it yet, or the reason is blank.
        RetryableError: The storage or the ledger did not answer. Calling it again is harmless.
    """
    output = pipeline.sink.output
    kind = kinds.of(pipeline)
    if not kind.recreates:
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
        created = kind.recreate(pipeline)
        if created:
            decisions.record_recreated(ledger, pipeline.name, output)
    return created
