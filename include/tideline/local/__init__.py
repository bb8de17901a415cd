"""The local stack without Docker: Postgres, Kafka and Airflow as ordinary processes."""
