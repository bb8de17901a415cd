"""Define the DAG `upkeep`, which cleans up once a day with one task for each pipeline."""

from airflow.sdk import DAG  # noqa: F401 - Airflow parses only files that contain the words "airflow" and "dag"

from tideline.airflow import tasks
from tideline.airflow.dags import upkeep_dag
from tideline.declaration import pipelines

with upkeep_dag():
    for declared in pipelines.declared():
        tasks.upkeep(declared)
