-- What a session has to know before it sets up roles. `owner`: whose the ledger is; null if there is none.
SELECT current_database()::text AS database_name, current_user::text AS user_name, rolsuper AS is_superuser, rolcreaterole AS creates_roles,
       (SELECT pg_has_role(current_user, datdba, 'USAGE') FROM pg_database WHERE datname = current_database()) AS owns_database,
       (SELECT pg_get_userbyid(nspowner)::text FROM pg_namespace WHERE nspname = 'tideline') AS owner
FROM pg_roles WHERE rolname = current_user;
