-- Facts about the database that doctor needs before it queries the ledger's tables. `is_airflows`: the database holds
-- Airflow's own tables, which do not belong beside the ledger.
SELECT current_setting('server_version') AS version, current_setting('server_version_num')::int AS version_number,
       current_user::text AS user_name, current_database()::text AS database_name,
       to_regclass('tideline.migration') IS NOT NULL AS has_ledger,
       (SELECT count(DISTINCT relname) FROM pg_class
        WHERE relkind = 'r' AND relname IN ('dag_run', 'task_instance', 'alembic_version')) = 3 AS is_airflows;
