-- List what belongs to the user of this session, except the ledger and what is Postgres's own: schemas first. Indexes, and the sequences of columns,
-- follow their tables.
SELECT 'SCHEMA' AS kind, nspname::text AS schema, NULL::text AS name
FROM pg_namespace
WHERE nspowner = current_user::regrole AND nspname <> 'information_schema' AND nspname NOT LIKE 'pg\_%%' AND nspname NOT IN ('tideline', 'tideline_staging')
UNION ALL
SELECT 'TABLE', nspname::text, relname::text
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE relowner = current_user::regrole AND relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
  AND nspname <> 'information_schema' AND nspname NOT LIKE 'pg\_%%' AND nspname NOT IN ('tideline', 'tideline_staging')
  AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = pg_class.oid AND deptype IN ('a', 'i') AND relkind = 'S')
UNION ALL
SELECT 'TYPE', nspname::text, typname::text
FROM pg_type JOIN pg_namespace ON pg_namespace.oid = typnamespace
WHERE typowner = current_user::regrole AND typtype = 'e' AND nspname NOT LIKE 'pg\_%%' AND nspname NOT IN ('tideline', 'tideline_staging')
ORDER BY kind, schema, name;
