"""accept_partitions: load the partitions that a topic has gained, because no key has moved to another one."""

from tideline.declaration.pipelines import Pipeline
from tideline.domain.streams import is_of_growth
from tideline.errors import FatalError
from tideline.flow import candidates
from tideline.flow.operator_decisions import deciding
from tideline.kafka.broker import Broker
from tideline.ledger import decisions
from tideline.ledger.connection import Ledger


def accept_partitions(
    ledger: Ledger, broker: Broker, pipeline: Pipeline, topic: str, *, reason: str, dry_run: bool = False
) -> list[str]:
    """Resume the streams of a topic that stopped because partitions were added to it. With `dry_run`, nothing is changed.

    Returns:
        One line for each stream.

    Raises:
        FatalError: No stream of the topic has stopped for that, or the reason is blank.
        NeedsOperatorError: Another cluster answers.
        RetryableError: The broker or the ledger did not answer.
    """
    with deciding(ledger, pipeline.name, reason, dry_run=dry_run) as now:
        found = candidates.survey(ledger, broker, pipeline, now)
        decisions.set_reason(ledger, reason)  # after the survey: streams that it stops have their own reason
        problems = [*found.comparison.inconsistent, *((one, one.stopped_because) for one in found.comparison.stopped)]
        held = [stream for stream, problem in problems if stream.topic == topic and is_of_growth(problem)]
        if not held:
            raise FatalError(
                f"{pipeline.name}: no partition of {topic} waits for a decision: none was added",
                next_step=f"look at its streams: tideline streams {pipeline.name}",
                entry="nothing-to-decide",
            )
        for stream in held:
            decisions.resume(ledger, stream, accepted_end=stream.accepted_end)
    return [
        f"{stream.label}: goes on at {stream.next_offset}" for stream in sorted(held, key=lambda one: one.partition)
    ]
