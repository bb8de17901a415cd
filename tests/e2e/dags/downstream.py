"""A DAG of another team: it runs when the pipeline `announced` has published, and returns the content of the events."""

from datetime import UTC, datetime
from typing import Any

from airflow.sdk import DAG, Asset, task

LOADED = Asset(name="announced", uri="tideline://announced")

with DAG(dag_id="downstream", schedule=[LOADED], start_date=datetime(2020, 1, 1, tzinfo=UTC), catchup=False):

    @task(inlets=[LOADED])
    def loaded(inlet_events: Any = None, triggering_asset_events: Any = None) -> list[dict[str, Any]]:
        """Return the batches of the runs that triggered it. Airflow may deliver some of a run's events only the next time."""
        runs = {event.source_run_id for event in triggering_asset_events[LOADED]}
        return [event.extra for event in inlet_events[LOADED] if event.source_run_id in runs]

    loaded()
