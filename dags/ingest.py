"""Define one DAG for each folder under include/pipelines. Its tasks are plan, write, advance and announce."""

from airflow.sdk import DAG  # noqa: F401 - Airflow parses only files that contain the words "airflow" and "dag"

from tideline.airflow import tasks
from tideline.airflow.dags import ingest_dag, parsed_now

for declared in parsed_now():
    with ingest_dag(declared):
        tasks.ingest(declared)
