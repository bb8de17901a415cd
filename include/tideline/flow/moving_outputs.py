"""free_output, move_output: free the outputs of a pipeline that was given up, and move one on purpose."""

from tideline.declaration.pipelines import Pipeline
from tideline.flow.claiming import outputs
from tideline.flow.known_pipelines import check_known
from tideline.flow.operator_decisions import deciding
from tideline.kafka.broker import Broker
from tideline.ledger import claimed_outputs, decisions
from tideline.ledger.connection import Ledger


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
