"""The columns of a pipeline's Delta table, as the log of the table has them."""

from tideline.declaration.pipelines import Pipeline
from tideline.sinks.delta import delta_log
from tideline.sinks.delta.delta_table import PLACEHOLDER


def of_pipeline(pipeline: Pipeline) -> list[tuple[str, str]]:
    """Return names and types in Delta's terms; nothing before the first batch has made the table.

    Raises:
        RetryableError: Storage did not answer.
        FatalError: A variable of the environment is not set.
    """
    table = delta_log.of(pipeline).open()
    columns = [(field.name, str(field.type.type)) for field in table.schema().fields] if table else []
    return [] if PLACEHOLDER in dict(columns) else columns
