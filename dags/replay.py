"""One DAG for all pipelines that loads again what is loaded, and replaces it: plan, write, advance and announce."""

from airflow.sdk import DAG  # noqa: F401 - Airflow only parses files that name it and DAG

from tideline.airflow import tasks
from tideline.airflow.dags import replay_dag
from tideline.declaration import pipelines

declared = pipelines.declared()
with replay_dag(declared):
    tasks.replay(declared)
