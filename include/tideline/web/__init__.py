"""The page in Airflow's navigation: what is loaded, what is missing, and what to do about it. Airflow mounts it at `/tideline`."""
