-- name: set_password
-- Give a role its password. The server keeps a hash of it.
ALTER ROLE {role} PASSWORD {password};

-- name: list_schemas_of
-- List the schemas of a role, and the one that every database has.
SELECT nspname::text AS name FROM pg_namespace WHERE nspowner = %(role)s::regrole OR nspname = 'public' ORDER BY nspname;

-- name: grant_output
-- Let the operator delete the rows that a rewind takes back, in the output tables that are there.
GRANT USAGE ON SCHEMA {schema} TO {operator};
GRANT SELECT, DELETE ON ALL TABLES IN SCHEMA {schema} TO {operator};

-- name: grant_creation
-- Let the writer create output tables and their schemas, and the operator delete the rows that a rewind takes back. No other user may connect.
REVOKE ALL ON DATABASE {database} FROM PUBLIC;
GRANT CREATE ON DATABASE {database} TO {writer};
GRANT CREATE ON SCHEMA public TO {writer};
ALTER DEFAULT PRIVILEGES FOR ROLE {writer} GRANT USAGE ON SCHEMAS TO {operator};
ALTER DEFAULT PRIVILEGES FOR ROLE {writer} GRANT SELECT, DELETE ON TABLES TO {operator};

-- name: give_database
-- Make a role the owner of a database, into which no other user may look.
ALTER DATABASE {database} OWNER TO {role};
REVOKE ALL ON DATABASE {database} FROM PUBLIC;

-- name: list_owned
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

-- name: hand_over
-- Make a role the owner of a schema, of a table or view, or of a type.
ALTER {kind} {object} OWNER TO {role};
