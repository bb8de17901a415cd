-- Facts about the database that doctor needs before it queries the ledger's tables. `is_airflows`: the database holds
-- Airflow's own tables, which do not belong beside the ledger. `is_standby`: the server takes no writes. `owner`: whose the
-- ledger is; null if there is none.
SELECT current_setting('server_version') AS version, pg_is_in_recovery() AS is_standby,
       current_setting('server_encoding') AS encoding, current_setting('server_version_num')::int AS version_number,
       current_user::text AS user_name, current_database()::text AS database_name,
       to_regclass('tideline.migration') IS NOT NULL AS has_ledger,
       (SELECT count(DISTINCT relname) FROM pg_class
        WHERE relkind = 'r' AND relname IN ('dag_run', 'task_instance', 'alembic_version')) = 3 AS is_airflows,
       (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AS is_superuser,
       pg_get_userbyid(nspowner)::text AS owner, coalesce(pg_has_role(current_user, nspowner, 'MEMBER'), false) AS acts_as_owner
FROM (SELECT max(nspowner::bigint)::oid AS nspowner FROM pg_namespace WHERE nspname = 'tideline') AS ledger;
