"""Declares the DAGs of Tideline. The DAG folder of a deployment needs one file of three lines, which calls `declare_dags`.

from airflow.sdk import DAG  # Airflow parses only files that contain the words "airflow" and "dag"
from tideline.airflow.all_dags import declare_dags
declare_dags()
"""

from airflow.sdk import get_parsing_context

from tideline.airflow import secrets_backends, tasks
from tideline.airflow.dags import REPLAY, UPKEEP, dag_id_of, ingest_dag, replay_dag, upkeep_dag
from tideline.declaration import pipelines


def declare_dags() -> None:
    """Declare one DAG for each pipeline, and the DAGs `replay` and `upkeep`.

    Before Airflow runs a task, it parses the DAG file again and needs only the task's own DAG. Then only that one is
    declared: with hundreds of pipelines, reading all of them would cost more than the task's work.
    """
    secrets_backends.use()  # each process that runs tasks or their callbacks parses this file first
    wanted = get_parsing_context().dag_id  # None when Airflow parses the file for all of its DAGs
    shared = wanted in (REPLAY, UPKEEP)
    declared = pipelines.declared(chosen=lambda name: wanted is None or shared or dag_id_of(name) == wanted)
    if not shared:
        for pipeline in declared:
            with ingest_dag(pipeline):
                tasks.ingest(pipeline)
    if wanted in (None, REPLAY):
        with replay_dag(declared):
            tasks.replay(declared)
    if wanted in (None, UPKEEP):
        with upkeep_dag():
            for pipeline in declared:
                tasks.upkeep(pipeline)
