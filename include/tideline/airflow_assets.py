"""The assets of a pipeline: what it has published, for DAGs that wait for it, and the records that it waits for.

An event of the first is one batch, told once, with its ranges and counts. An event of the second is a hint and says nothing about offsets.
"""

from datetime import timedelta
from typing import Any

from airflow.sdk import Asset, AssetAlias, AssetWatcher
from pydantic import JsonValue

from tideline.airflow_trigger import NewRecordsTrigger
from tideline.ledger.publications import Publication

REPLAYED = "replayed batches"
_CLOCKS_APART = timedelta(hours=1)
"""No event about a batch is older than its publication by more than Airflow's database and the ledger's disagree about the time."""


def output(pipeline: str) -> Asset:
    """What other DAGs are scheduled on to run after `pipeline` has published a batch."""
    return Asset(name=pipeline, uri=f"tideline://{pipeline}")


def incoming(pipeline: str) -> Asset:
    """The records that wait in Kafka; while a DAG is scheduled on it, the triggerer looks for new ones."""
    watcher = AssetWatcher(name="new records", trigger=NewRecordsTrigger(pipeline=pipeline))
    return Asset(name=f"{pipeline} records", uri=f"tideline://{pipeline}/records", watchers=[watcher])


def batches(name: str) -> AssetAlias:
    """The outlet of `advance`: an asset there gets one event of each task that succeeds, but through an alias any number, also none."""
    return AssetAlias(name)


def announce(context: Any, pipeline: str, published: list[Publication]) -> list[int]:
    """Give the asset one event for each batch that has none yet; returns those batches.

    Airflow keeps the events together with the task's success: a try that fails has told nothing. One that is cleared and succeeds again would
    tell everything again, so events that are there are left out.
    """
    if not published:
        return []
    (alias,) = context["outlets"]
    since = min(publication.published_at for publication in published) - _CLOCKS_APART
    told = {(event.extra or {}).get("batch") for event in context["inlet_events"][alias].after(since.isoformat())}
    new = [publication for publication in published if publication.batch_id not in told]
    for publication in new:
        context["outlet_events"][alias].add(output(pipeline), extra=_extra(pipeline, publication))
    return [publication.batch_id for publication in new]


def wake(context: Any, pipeline: str) -> None:
    """Start one more run of a pipeline that is woken by records, once this task has succeeded."""
    (alias,) = context["outlets"]
    context["outlet_events"][alias].add(incoming(pipeline))


def _extra(pipeline: str, publication: Publication) -> dict[str, JsonValue]:
    counts = ("n_read", "n_written", "n_rejected", "n_filtered", "n_gap")
    return {
        "pipeline": pipeline,
        "batch": publication.batch_id,
        "kind": str(publication.kind),
        "ranges": [
            {
                "topic": loaded.range.topic,
                "partition": loaded.range.partition,
                "start": loaded.range.offsets.start,
                "end": loaded.range.offsets.end,
            }
            for loaded in publication.ranges
        ],
        **{count.removeprefix("n_"): sum(getattr(loaded, count) for loaded in publication.ranges) for count in counts},
    }
