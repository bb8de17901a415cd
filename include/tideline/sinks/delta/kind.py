"""Delta tables in folders and object stores. Their library is an extra of the package: nothing here needs it before it is asked."""

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from tideline import environment
from tideline.declaration.delta import DeltaSink
from tideline.declaration.pipelines import Pipeline
from tideline.declaration.sections import FromEnvironment
from tideline.errors import TidelineError
from tideline.ledger.connection import Ledger
from tideline.ledger.published_rows import Published
from tideline.sinks import evidence
from tideline.sinks.delta import places
from tideline.sinks.kind import ClusterOf, Dataset, Kind, loaded, section
from tideline.sinks.outside import OutsideSink

if TYPE_CHECKING:
    import pyarrow as pa

    from tideline.sinks.sink import Sink

log = logging.getLogger(__name__)


class DeltaTables(Kind):
    """Delta tables: a batch is a commit to the log of the table, which keeps its receipt for ever."""

    recreates: ClassVar[bool] = True

    def sink(self, pipeline: Pipeline) -> "Sink":
        """See `Kind.sink`."""
        sink: Sink = loaded(pipeline, "tideline.sinks.delta.sink").DeltaTableSink()
        return sink

    def place(self, pipeline: Pipeline, cluster_of: ClusterOf) -> str:  # noqa: ARG002 - no broker has it
        """Return the real path, or the address in its store."""
        return places.delta_place(pipeline, section(pipeline, DeltaSink))

    def dataset(self, pipeline: Pipeline, ledger: Ledger) -> Dataset:  # noqa: ARG002 - the log of the table has its columns
        """See `Kind.dataset`. Without columns if the storage does not answer, which must not hide where the rows went."""
        path = section(pipeline, DeltaSink).path
        if isinstance(path, FromEnvironment):
            path = environment.secret(path.env, f"sink.path of pipeline {pipeline.name}", masked=False)
        scheme, _, rest = path.partition("://")
        bucket, _, key = rest.partition("/")
        namespace, name = (f"{scheme}://{bucket}", key) if rest else ("file", path)
        try:
            columns: Sequence[tuple[str, str]] = loaded(pipeline, "tideline.sinks.delta.delta_table").columns_of(
                pipeline
            )
        except TidelineError as error:
            log.warning("%s", error)
            columns = ()
        return Dataset(namespace, name, columns)

    def lacking(self, pipeline: Pipeline, ledger: Ledger, produced: "pa.Schema") -> Sequence[tuple[str, str]]:  # noqa: ARG002
        """See `Kind.lacking`."""
        lacks: Sequence[tuple[str, str]] = loaded(pipeline, "tideline.sinks.delta.preparing").lacking(
            pipeline, produced
        )
        return lacks

    def outside(self, pipeline: Pipeline, ledger: Ledger, *, searching: bool = True) -> OutsideSink:  # noqa: ARG002 - it forgets nothing
        """See `Kind.outside`."""
        table: OutsideSink = loaded(pipeline, "tideline.sinks.delta.delta_table").sink(
            pipeline, evidence.of(ledger, pipeline)
        )
        return table

    def probe(self, pipeline: Pipeline, ledger: Ledger | None) -> Sequence[str]:
        """Try whether the storage refuses the second of two commits to one version. Leaves nothing there. See `Kind.probe`."""
        known = evidence.of(ledger, pipeline) if ledger else evidence.nothing
        problem: str | None = loaded(pipeline, "tideline.sinks.delta.delta_probe").of_pipeline(pipeline, known)
        return [problem] if problem else []

    def upkeep(self, pipeline: Pipeline, ledger: Ledger) -> list[str]:
        """See `Kind.upkeep`."""
        known = evidence.of(ledger, pipeline)
        done: list[str] = loaded(pipeline, "tideline.sinks.delta.delta_upkeep").upkeep(pipeline, known)
        return done

    def found_otherwise(self, pipeline: Pipeline, ranges: Sequence[Published]) -> Mapping[Published, int]:
        """See `Kind.found_otherwise`."""
        found: Mapping[Published, int] = loaded(pipeline, "tideline.sinks.delta.delta_rows").found_otherwise(
            pipeline, ranges
        )
        return found

    def recreate(self, pipeline: Pipeline) -> bool:
        """See `Kind.recreate`. The next batch gives the table its columns."""
        return bool(loaded(pipeline, "tideline.sinks.delta.delta_table").sink(pipeline).recreate())
