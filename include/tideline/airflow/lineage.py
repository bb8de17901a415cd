"""The lineage of batches in the terms of OpenLineage: topics in, a table or a topic out, with columns, ranges and counts.

Only Airflow's OpenLineage provider calls this. Its client library is installed with it, so no other module may import this one at import time.
"""

import logging
from collections.abc import Iterable, Sequence
from typing import Any

import attr
from airflow.providers.openlineage.extractors import OperatorLineage
from openlineage.client.generated.base import InputDataset, InputDatasetFacet, OutputDataset, RunFacet
from openlineage.client.generated.input_statistics_input_dataset import InputStatisticsInputDatasetFacet
from openlineage.client.generated.output_statistics_output_dataset import OutputStatisticsOutputDatasetFacet
from openlineage.client.generated.schema_dataset import SchemaDatasetFacet, SchemaDatasetFacetFields

from tideline import settings
from tideline.declaration import Source
from tideline.declaration.pipelines import Pipeline, load_named
from tideline.ledger import publications
from tideline.ledger.connection import Ledger
from tideline.ledger.publications import Loaded, PublishedBatch
from tideline.sinks import kinds

log = logging.getLogger(__name__)
_MOST_RANGES = 1_000
"""The most ranges that an event lists for a topic: servers refuse events of many megabytes. The counts are of all ranges."""
_SCHEMA = "https://github.com/OpenLineage/OpenLineage/blob/main/spec/OpenLineage.md#custom-facet-naming"
_COUNTS = ("read", "written", "rejected", "filtered", "gap")


@attr.define
class RangesFacet(InputDatasetFacet):  # type: ignore[misc]  # mypy does not follow the client: the class is untyped here
    """The offsets of a topic that batches have loaded."""

    ranges: list[dict[str, int]] = attr.field(factory=list)
    n_ranges: int = 0
    """How many there are; `ranges` lists the first of them."""

    @staticmethod
    def _get_schema() -> str:
        return _SCHEMA


@attr.define
class BatchesFacet(RunFacet):  # type: ignore[misc]  # as above
    """The batches that a run has published."""

    batches: list[dict[str, Any]] = attr.field(factory=list)

    @staticmethod
    def _get_schema() -> str:
        return _SCHEMA


def of_batches(pipeline_name: str, batch_ids: Iterable[int]) -> OperatorLineage:
    """Return the lineage of those batches that are published. Before that, it names topics and output only.

    Raises:
        TidelineError: The ledger does not answer, or the declaration has mistakes. The provider logs it, and the task goes on.
    """
    pipeline = load_named(pipeline_name)
    with Ledger(settings.url_of(settings.READER_URL)[0], actor="lineage") as ledger:
        published = publications.of_batches(ledger, list(batch_ids))
        output = _output(ledger, pipeline, published)
    facet = BatchesFacet(batches=[_batch(each) for each in published])
    return OperatorLineage(
        inputs=_inputs(pipeline.source, published),
        outputs=[output],
        run_facets={"tideline_batches": facet} if published else {},
    )


def _inputs(source: Source, published: Sequence[PublishedBatch]) -> list[InputDataset]:
    by_topic: dict[str, list[Loaded]] = {topic: [] for topic in source.topics or ()}
    for publication in published:
        for loaded in publication.ranges:
            by_topic.setdefault(loaded.range.topic, []).append(loaded)
    return [
        InputDataset(
            namespace=source.brokers.namespace(),
            name=topic,
            facets=_schema(
                (name, str(kind)) for part in (source.key, source.value) if part for name, kind in part.columns.items()
            ),
            inputFacets=_read(loaded) if loaded else {},
        )
        for topic, loaded in sorted(by_topic.items())
    ]


def _read(loaded: Sequence[Loaded]) -> dict[str, InputDatasetFacet]:
    ranges = [
        {
            "partition": each.range.partition,
            "start": each.range.offsets.start,
            "end": each.range.offsets.end,
            **_counts([each]),
        }
        for each in loaded[:_MOST_RANGES]
    ]
    return {
        "inputStatistics": InputStatisticsInputDatasetFacet(rowCount=sum(each.n_read for each in loaded)),
        "tideline_ranges": RangesFacet(ranges=ranges, n_ranges=len(loaded)),
    }


def _output(ledger: Ledger, pipeline: Pipeline, published: Sequence[PublishedBatch]) -> OutputDataset:
    found = kinds.of(pipeline).dataset(pipeline, ledger)
    n_written = sum(loaded.n_written for publication in published for loaded in publication.ranges)
    statistics = {"outputStatistics": OutputStatisticsOutputDatasetFacet(rowCount=n_written)} if published else {}
    return OutputDataset(
        namespace=found.namespace, name=found.name, facets=_schema(found.columns), outputFacets=statistics
    )


def _schema(columns: Iterable[tuple[str, str]]) -> dict[str, SchemaDatasetFacet]:
    fields = [SchemaDatasetFacetFields(name=name, type=kind) for name, kind in columns]
    return {"schema": SchemaDatasetFacet(fields=fields)} if fields else {}


def _batch(publication: PublishedBatch) -> dict[str, Any]:
    return {
        "batch": publication.batch_id,
        "kind": publication.kind.value,
        "attempt": str(publication.attempt),
        "published_at": publication.published_at.isoformat(),
        **_counts(publication.ranges),
    }


def _counts(loaded: Sequence[Loaded]) -> dict[str, int]:
    return {count: sum(getattr(each, f"n_{count}") for each in loaded) for count in _COUNTS}
