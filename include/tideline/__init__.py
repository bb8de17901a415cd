"""Tideline loads bounded batches of Kafka records into tables, exactly once, controlled by Airflow.

The packages in the order in which a batch passes through them: `declaration` (a pipeline), `airflow` (a DAG run), `flow`
(the verbs), `kafka` (queries of the brokers), `domain` (pure rules about offsets and batches), `ledger` (which batch owns
which offsets). The Spark job is `tideline.spark_jobs`, a link to the folder `spark_jobs` of the repository.
"""
