"""The code that imports Airflow: DAGs, tasks, assets and trigger forms. `trigger_form` and `api` do not import it."""
