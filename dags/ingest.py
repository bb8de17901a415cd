"""One DAG for each folder under include/pipelines: plan, write, advance and announce."""

from airflow.sdk import DAG  # noqa: F401 - Airflow only parses files that name it and DAG

from tideline.airflow import tasks
from tideline.airflow.dags import ingest_dag, parsed_now

for declared in parsed_now():
    with ingest_dag(declared):
        tasks.ingest(declared)
