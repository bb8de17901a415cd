"""Define the DAGs of Tideline: one for each pipeline, `replay` and `upkeep`."""

from airflow.sdk import DAG  # noqa: F401 - Airflow parses only files that contain the words "airflow" and "dag"

from tideline.airflow.all_dags import declare_dags

declare_dags()
