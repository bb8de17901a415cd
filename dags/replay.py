"""Define the DAG `replay`, one for all pipelines. It loads offsets again and replaces their rows.

Its tasks are plan, write, advance and announce.
"""

from airflow.sdk import DAG  # noqa: F401 - Airflow parses only files that contain the words "airflow" and "dag"

from tideline.airflow import tasks
from tideline.airflow.dags import replay_dag
from tideline.declaration import pipelines

declared = pipelines.declared()
with replay_dag(declared):
    tasks.replay(declared)
