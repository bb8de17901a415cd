"""One DAG for each folder under include/pipelines: plan, write, advance."""

from airflow.sdk import DAG  # noqa: F401 - Airflow only parses files that name it and DAG

from tideline import pipelines
from tideline.airflow_tasks import advance, ingest_dag, plan, write

for declared in pipelines.declared():
    with ingest_dag(declared):
        plan(declared.name) >> write(declared.name) >> advance(declared.name)
