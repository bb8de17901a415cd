"""One DAG for each folder under include/pipelines: plan, write, advance."""

from airflow.sdk import DAG  # noqa: F401 - Airflow only parses files that name it and DAG

from tideline import airflow_tasks, pipelines
from tideline.airflow_dags import ingest_dag

for declared in pipelines.declared():
    with ingest_dag(declared):
        airflow_tasks.ingest(declared)
