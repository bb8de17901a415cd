"""The servers of a checkout for trials and tests: Postgres, Kafka and Airflow without Docker, and their set-up. No part of the package."""
