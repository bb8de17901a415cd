"""Tables in the ledger's database."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from tideline import settings
from tideline.declaration.pipelines import Pipeline
from tideline.ledger import address, queries
from tideline.ledger.connection import Ledger
from tideline.sinks.kind import ClusterOf, Dataset, Kind, loaded

if TYPE_CHECKING:
    import pyarrow as pa

    from tideline.sinks.sink import Sink


class PostgresTables(Kind):
    """Tables in the ledger's database: its transaction holds rows and counts, so there is nothing to fence, and no receipt."""

    is_outside: ClassVar[bool] = False

    def sink(self, pipeline: Pipeline) -> "Sink":
        """See `Kind.sink`."""
        sink: Sink = loaded(pipeline, "tideline.sinks.postgres.sink").TableSink()
        return sink

    def place(self, pipeline: Pipeline, cluster_of: ClusterOf) -> str:  # noqa: ARG002 - no broker has it
        """Return schema and table."""
        return pipeline.table_sink.table

    def lacking(self, pipeline: Pipeline, ledger: Ledger, produced: "pa.Schema") -> Sequence[tuple[str, str]]:
        """See `Kind.lacking`."""
        with queries.reading(ledger):
            table = loaded(pipeline, "tideline.sinks.postgres.target_table").described(ledger, pipeline)
        lacks = loaded(pipeline, "tideline.sinks.postgres.fitting").lacking(table, produced, pipeline)
        return [(column.name, column.sql_type) for column in lacks] if table.columns else []

    def dataset(self, pipeline: Pipeline, ledger: Ledger) -> Dataset:
        """See `Kind.dataset`."""
        host, port, database = address.place(settings.ledger_url())
        table = pipeline.table_sink.table
        return Dataset(f"postgres://{host}:{port}", f"{database}.{table}", queries.output_columns(ledger, table))
