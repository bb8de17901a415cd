"""Say which columns the next batch would add to its output. Nothing is changed, and no record is read."""

from tideline.declaration.pipelines import Pipeline
from tideline.ledger.connection import Ledger
from tideline.records import transforms
from tideline.records.record_steps import record_steps
from tideline.sinks import kinds
from tideline.state.rules import rules_of

_UNKNOWN = "whether the next batch adds columns to {}, only the run knows: Spark says what transform.py returns"


def of_next_batch(session: Ledger, pipeline: Pipeline) -> list[str]:
    """Return a line if there is something to say: the declaration lets batches add columns, and the output may lack some.

    Raises:
        TidelineError: The ledger or the output does not answer, or the pipeline is wrong.
    """
    if not pipeline.sink.adds_columns:
        return []
    try:
        transform = transforms.load(pipeline)
    except transforms.NeedsSparkError:
        return [_UNKNOWN.format(pipeline.sink.output)]
    if transform.frame is not None:
        return [_UNKNOWN.format(pipeline.sink.output)]
    rows = record_steps(pipeline, transform).rows
    rules = rules_of(pipeline, transform, rows)
    lacks = kinds.of(pipeline).lacking(pipeline, session, rows if rules is None else rules.schema)
    added = ", ".join(f"{name} {type_name}" for name, type_name in lacks)
    return [f"the next batch adds to {pipeline.sink.output}: {added}"] if added else []
