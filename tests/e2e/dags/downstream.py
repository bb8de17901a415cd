"""A DAG of somebody else: it runs when the pipeline `announced` has published, and returns what it was told."""

from datetime import UTC, datetime

from airflow.sdk import DAG, Asset, task

LOADED = Asset(name="announced", uri="tideline://announced")

with DAG(dag_id="downstream", schedule=[LOADED], start_date=datetime(2020, 1, 1, tzinfo=UTC), catchup=False):

    @task(inlets=[LOADED])
    def told(inlet_events=None, triggering_asset_events=None):
        """The batches of the runs that woke it: Airflow may hand over some of a run's events only the next time."""
        runs = {event.source_run_id for event in triggering_asset_events[LOADED]}
        return [event.extra for event in inlet_events[LOADED] if event.source_run_id in runs]

    told()
