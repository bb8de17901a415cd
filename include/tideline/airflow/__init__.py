"""Everything that imports Airflow: DAGs, their tasks, assets and forms. `trigger_form` and `api` work without it."""
