"""The two assets of a pipeline: its published batches, and the new records in its topics.

Downstream DAGs are scheduled on the first. It gets exactly one event for each batch, with the batch's ranges and counts.
A pipeline that is woken by records is scheduled on the second. Its events are hints and carry no offsets.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from airflow.sdk import Asset, AssetAlias, AssetWatcher
from pydantic import JsonValue

from tideline.airflow.trigger import NewRecordsTrigger
from tideline.ledger.publications import Announcer, PublishedBatch

REPLAYED = "replayed batches"
_MAX_CLOCK_SKEW = timedelta(hours=1)
"""The largest difference allowed between the clocks of Airflow's database and the ledger's.

An event about a batch is created after the batch is published. So its timestamp precedes the publication's by this much at most.
"""


def output(pipeline: str) -> Asset:
    """Return the asset of published batches: DAGs scheduled on it run after `pipeline` has published a batch."""
    return Asset(name=pipeline, uri=f"tideline://{pipeline}")


def incoming(pipeline: str) -> Asset:
    """Return the asset of new records in Kafka. While a DAG is scheduled on it, the triggerer polls the topics."""
    watcher = AssetWatcher(name="new records", trigger=NewRecordsTrigger(pipeline=pipeline))
    return Asset(name=f"{pipeline} records", uri=f"tideline://{pipeline}/records", watchers=[watcher])


def batches(name: str) -> AssetAlias:
    """Return the alias that is the outlet of an announcing task.

    An asset that is itself an outlet gets exactly one event when the task succeeds. Through an alias it gets any number, also none.
    """
    return AssetAlias(name)


class Events:
    """The asset events of a pipeline as Airflow has stored them. Usable within a task that has the asset as an inlet."""

    def __init__(self, context: Any, pipeline: str) -> None:
        self._context = context
        self._asset = output(pipeline)

    def may_succeed(self, announcer: Announcer) -> bool:
        """Return whether the announcing task is still running and so may still succeed with its events.

        The API server accepts no more events of a task that is not running, because each try has an id of its own.
        """
        states = self._context["ti"].get_task_states(
            dag_id=announcer.dag_id, run_ids=[announcer.run_id], task_ids=[announcer.task_id]
        )
        return bool(states.get(announcer.run_id, {}).get(announcer.task_id) == "running")

    def announced(self, since: datetime) -> set[UUID]:
        """Return the attempts that are named in asset events of `since` or later."""
        events = self._context["inlet_events"][self._asset].after((since - _MAX_CLOCK_SKEW).isoformat())
        return {UUID(event.extra["attempt"]) for event in events if "attempt" in (event.extra or {})}


def announce(context: Any, pipeline: str, publications: Iterable[PublishedBatch]) -> None:
    """Add one asset event for each batch. Airflow stores all of them together with this task's success, or none of them."""
    (alias,) = context["outlets"]
    for publication in publications:
        context["outlet_events"][alias].add(output(pipeline), extra=_extra(pipeline, publication))


def wake(context: Any, pipeline: str) -> None:
    """Add the event that starts one more run of a pipeline that is woken by records, once this task has succeeded."""
    (alias,) = context["outlets"]
    context["outlet_events"][alias].add(incoming(pipeline))


def _extra(pipeline: str, publication: PublishedBatch) -> dict[str, JsonValue]:
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
