"""The servers of a checkout for trials and tests: Postgres, Kafka, a schema registry and Airflow, and their set-up. No part of the package."""
