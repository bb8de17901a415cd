"""One DAG for all pipelines that loads again what is loaded, and replaces it: plan, write, advance and announce."""

from airflow.sdk import DAG  # noqa: F401 - Airflow only parses files that name it and DAG

from tideline import airflow_tasks, pipelines
from tideline.airflow_dags import replay_dag

declared = pipelines.declared()
with replay_dag(declared):
    airflow_tasks.replay(declared)
