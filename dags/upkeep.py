"""One DAG that tidies up once a day: a task for each pipeline."""

from airflow.sdk import DAG  # noqa: F401 - Airflow only parses files that name it and DAG

from tideline import airflow_tasks, pipelines
from tideline.airflow_dags import upkeep_dag

with upkeep_dag():
    for declared in pipelines.declared():
        airflow_tasks.upkeep(declared)
