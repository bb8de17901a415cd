"""Claim the outputs that a pipeline declares, free those of one that was given up, and move one on purpose."""

from collections.abc import Sequence

from tideline.declaration.brokers import Brokers
from tideline.declaration.delta import DeltaSink
from tideline.declaration.kafka_sink import KafkaSink
from tideline.declaration.pipelines import Pipeline
from tideline.errors import FatalError
from tideline.flow.operator_decisions import deciding
from tideline.kafka.broker import Broker
from tideline.kafka.connection import Connection
from tideline.ledger import claimed_outputs, decisions, reservations
from tideline.ledger.claimed_outputs import REJECTS, ROWS, Output
from tideline.ledger.connection import Ledger
from tideline.outside import places


def outputs(pipeline: Pipeline, broker: Broker) -> list[Output]:
    """Return the outputs of a pipeline by their real places. Asks brokers which cluster they are where an output is a topic.

    Args:
        pipeline: The pipeline.
        broker: Its source, which has the topic of rejects.

    Raises:
        FatalError: A variable of the environment is not set.
        RetryableError: The brokers of a topic did not answer.
    """
    found = [rows_output(pipeline, broker)]
    if pipeline.rejects.topic is not None:
        place = f"{broker.cluster_id()}/{pipeline.rejects.topic}"
        if (found[0].kind, found[0].place) != ("kafka", place):
            # Several pipelines may send rejects to one topic. Only the pipeline whose rows go there has to consent.
            found.append(Output(purpose=REJECTS, kind="kafka", place=place, shared=True))
    return found


def rows_output(pipeline: Pipeline, broker: Broker) -> Output:
    """Return where the rows of a pipeline go. Raises what `outputs` raises."""
    sink = pipeline.sink
    match sink:
        case KafkaSink():
            place = f"{_cluster(sink.brokers(pipeline.source), broker)}/{sink.topic}"
        case DeltaSink():
            place = places.delta_place(pipeline, sink)
        case _:
            place = sink.table
    return Output(purpose=ROWS, kind=sink.kind, place=place, shared=sink.shared)


def _cluster(brokers: Brokers, source: Broker) -> str:
    return source.cluster_id() if brokers.section == "source" else Connection(brokers).cluster_id()


def claim_outputs(ledger: Ledger, pipeline: Pipeline, claimed: Sequence[Output]) -> None:
    """Claim outputs in a transaction of its own. A write calls it: since the plan the declaration may have changed.

    Raises:
        FatalError: Another pipeline has one of them, or the pipeline has loaded another output.
        RetryableError: Another pipeline claims it at this moment, or the ledger did not answer.
    """
    with ledger.transaction():
        claimed_outputs.claim(ledger, pipeline.name, claimed)


def free_output(ledger: Ledger, pipeline: str, *, reason: str) -> list[str]:
    """Release the outputs of a pipeline that was given up, so that other pipelines can claim them, and return what they are called.

    What is in them stays. A later plan of the pipeline claims them again.

    Raises:
        FatalError: The ledger does not know the pipeline, it has no output, batches of it are open, or the reason is blank.
    """
    _check_known(ledger, pipeline)
    with deciding(ledger, pipeline, reason):
        decisions.set_reason(ledger, reason)
        return claimed_outputs.free(ledger, pipeline)


def move_output(
    ledger: Ledger, broker: Broker, pipeline: Pipeline, *, reason: str, dry_run: bool = False
) -> tuple[str | None, str]:
    """Let a pipeline write to the output that it declares now. Return the former one, None if it has this one already, and this one.

    What the former one holds stays there, and the former one is free for others. With `dry_run`, change nothing.

    Raises:
        FatalError: The ledger does not know the pipeline, a batch of it is being written, another pipeline has the output, or the reason is blank.
        RetryableError: The brokers of a topic or the ledger did not answer.
    """
    _check_known(ledger, pipeline.name)
    output = rows_output(pipeline, broker)
    with deciding(ledger, pipeline.name, reason, dry_run=dry_run):
        decisions.set_reason(ledger, reason)
        return claimed_outputs.move(ledger, pipeline.name, output), str(output)


def _check_known(ledger: Ledger, pipeline: str) -> None:
    with ledger.transaction():
        known = reservations.is_known(ledger, pipeline)
    if not known:
        raise FatalError(
            f"expected a pipeline that the ledger knows, found {pipeline!r}",
            next_step="check the name: tideline pipelines",
            entry="no-such-pipeline",
        )
