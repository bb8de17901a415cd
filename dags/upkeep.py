"""One DAG that tidies up once a day: a task for each pipeline."""

from airflow.sdk import DAG  # noqa: F401 - Airflow only parses files that name it and DAG

from tideline.airflow import tasks
from tideline.airflow.dags import upkeep_dag
from tideline.declaration import pipelines

with upkeep_dag():
    for declared in pipelines.declared():
        tasks.upkeep(declared)
