"""Claim the outputs that a pipeline declares, by their real places."""

from collections.abc import Sequence

from tideline.declaration.brokers import Brokers
from tideline.declaration.pipelines import Pipeline
from tideline.errors import NeedsOperatorError
from tideline.kafka.broker import Broker
from tideline.kafka.connection import Connection
from tideline.ledger import claimed_outputs, intents
from tideline.ledger.claimed_outputs import REJECTS, ROWS, ClaimedOutput, described
from tideline.ledger.connection import Ledger
from tideline.sinks import kinds


def outputs(pipeline: Pipeline, broker: Broker) -> list[ClaimedOutput]:
    """Return the outputs of a pipeline by their real places, that of its rows first. Asks brokers which cluster they are where an output is a topic.

    Args:
        pipeline: The pipeline.
        broker: Its source, which has the topic of rejects.

    Raises:
        FatalError: A variable of the environment is not set.
        RetryableError: The brokers of a topic did not answer.
    """
    found = [_rows_output(pipeline, broker)]
    if pipeline.rejects.topic is not None:
        place = f"{broker.cluster_id()}/{pipeline.rejects.topic}"
        if (found[0].kind, found[0].place) != ("kafka", place):
            # Several pipelines may send rejects to one topic. Only the pipeline whose rows go there has to consent.
            found.append(ClaimedOutput(purpose=REJECTS, kind="kafka", place=place, shared=True))
    return found


def has_topics(pipeline: Pipeline) -> bool:
    """Return whether an output of a pipeline is a topic, so that `outputs` asks brokers."""
    return kinds.of(pipeline).asks_brokers or pipeline.rejects.topic is not None


def _rows_output(pipeline: Pipeline, broker: Broker | None = None) -> ClaimedOutput:
    """Return where the rows of a pipeline go. By default a topic's own brokers are asked for their cluster. Raises what `outputs` raises."""
    place = kinds.of(pipeline).place(pipeline, lambda brokers: _cluster(brokers, broker))
    return ClaimedOutput(purpose=ROWS, kind=pipeline.sink.kind, place=place, shared=pipeline.sink.shared)


def _cluster(brokers: Brokers, source: Broker | None) -> str:
    return source.cluster_id() if source and brokers.section == "source" else Connection(brokers).cluster_id()


def check_former(ledger: Ledger, pipeline: Pipeline, batch_id: int) -> None:
    """Make sure that the declaration leads to the output to which earlier attempts at a batch may have committed, before it is asked what it has.

    Another one has no receipt, and a fence there fences nothing in the one that may have the rows: the batch would be loaded once more. The name
    does not tell: a variable, a link or an address of brokers may lead to an output of the same name.

    Raises:
        NeedsOperatorError: It names another output, or leads to another place than the pipeline has claimed.
        RetryableError: The brokers of a topic or the ledger did not answer.
    """
    may_have = {intent.output for intent in intents.unsealed_of(ledger, batch_id)}
    if not may_have:
        return
    if others := sorted(may_have - {pipeline.sink.output}):
        raise _leads_elsewhere(pipeline, batch_id, ", ".join(others), f"names {pipeline.sink.output}")
    with ledger.transaction():
        claimed = claimed_outputs.of(ledger, pipeline.name).get(ROWS)
    here = _rows_output(pipeline)
    if claimed is not None and (claimed["kind"], claimed["place"]) != (here.kind, here.place):
        raise _leads_elsewhere(pipeline, batch_id, described(claimed["kind"], claimed["place"]), f"leads to {here}")


def _leads_elsewhere(pipeline: Pipeline, batch_id: int, former: str, found: str) -> NeedsOperatorError:
    return NeedsOperatorError(
        f"{pipeline.name} batch {batch_id}: an attempt may have committed it to {former}; the declaration {found} now",
        next_step="let section `sink`, with its variables, links and addresses, lead to the former one until this batch is published or abandoned; "
        f"only if that output does not exist any more: tideline abandon {batch_id} --force --reason ...",
        entry="sink-has-changed",
    )


def claim_outputs(ledger: Ledger, pipeline: Pipeline, claimed: Sequence[ClaimedOutput]) -> None:
    """Claim outputs in a transaction of its own. A write calls it: since the plan the declaration may have changed.

    Raises:
        FatalError: Another pipeline has one of them, or the pipeline has loaded another output.
        RetryableError: Another pipeline claims it at this moment, or the ledger did not answer.
    """
    with ledger.transaction():
        claimed_outputs.claim(ledger, pipeline.name, claimed)
