"""Tideline: bounded Kafka batches into tables, exactly once, steered from Airflow.

In the order in which a batch meets them: `declaration` (a pipeline), `airflow` (a DAG run), `flow` (the verbs), `kafka` (what the broker
says), `domain` (what is true of offsets whatever happens), `ledger` (who owns which offsets). The Spark job is beside, in `spark_jobs`.
"""
