"""One DAG for each folder under include/pipelines: plan, write, advance and announce."""

from airflow.sdk import DAG  # noqa: F401 - Airflow only parses files that name it and DAG

from tideline import airflow_tasks
from tideline.airflow_dags import ingest_dag, parsed_now

for declared in parsed_now():
    with ingest_dag(declared):
        airflow_tasks.ingest(declared)
