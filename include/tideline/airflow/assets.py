"""The assets of a pipeline: what it has published, for DAGs that wait for it, and the records that it waits for.

An event of the first is one batch, told once, with its ranges and counts. An event of the second is a hint and says nothing about offsets.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from airflow.sdk import Asset, AssetAlias, AssetWatcher
from pydantic import JsonValue

from tideline.airflow.trigger import NewRecordsTrigger
from tideline.ledger.publications import Announcer, Publication

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
    """The outlet of a task that announces: an asset there gets one event of each task that succeeds, but through an alias any number, also none."""
    return AssetAlias(name)


class Events:
    """What Airflow knows of the events of a pipeline's asset, asked from within a task that has the asset as an inlet."""

    def __init__(self, context: Any, pipeline: str) -> None:
        self._context = context
        self._asset = output(pipeline)

    def may_succeed(self, announcer: Announcer) -> bool:
        """Whether a task is running. Of one that is not, the API server accepts no events any more: each try has an id of its own."""
        states = self._context["ti"].get_task_states(
            dag_id=announcer.dag_id, run_ids=[announcer.run_id], task_ids=[announcer.task_id]
        )
        return bool(states.get(announcer.run_id, {}).get(announcer.task_id) == "running")

    def announced(self, since: datetime) -> set[UUID]:
        """The attempts that stand in events of `since` or later."""
        events = self._context["inlet_events"][self._asset].after((since - _CLOCKS_APART).isoformat())
        return {UUID(event.extra["attempt"]) for event in events if "attempt" in (event.extra or {})}


def announce(context: Any, pipeline: str, publications: Iterable[Publication]) -> None:
    """Give the asset one event for each batch, once this task has succeeded: Airflow keeps them together with the success, or none."""
    (alias,) = context["outlets"]
    for publication in publications:
        context["outlet_events"][alias].add(output(pipeline), extra=_extra(pipeline, publication))


def wake(context: Any, pipeline: str) -> None:
    """Start one more run of a pipeline that is woken by records, once this task has succeeded."""
    (alias,) = context["outlets"]
    context["outlet_events"][alias].add(incoming(pipeline))


def _extra(pipeline: str, publication: Publication) -> dict[str, JsonValue]:
    counts = ("n_read", "n_written", "n_rejected", "n_filtered", "n_gap")
    return {
        "pipeline": pipeline,
        "batch": publication.batch_id,
        "attempt": str(publication.attempt),
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
