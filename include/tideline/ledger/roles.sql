-- name: view_role_setup
-- What a session has to know before it sets up roles. `owner`: whose the ledger is; null if there is none.
SELECT current_database()::text AS database_name, current_user::text AS user_name, rolsuper AS is_superuser, rolcreaterole AS creates_roles,
       (SELECT pg_has_role(current_user, datdba, 'USAGE') FROM pg_database WHERE datname = current_database()) AS owns_database,
       (SELECT pg_get_userbyid(nspowner)::text FROM pg_namespace WHERE nspname = 'tideline') AS owner
FROM pg_roles WHERE rolname = current_user;

-- name: list_existing_roles
-- Which of these roles exist, and whether this user may act as each.
SELECT rolname::text AS name, pg_has_role(current_user, oid, 'MEMBER') AS is_member FROM pg_roles WHERE rolname = ANY (%(names)s::text[]);

-- name: create_role
-- Create a role that may log in. It has no password yet.
CREATE ROLE {role} LOGIN;

-- name: join_owner
-- Let this user act as the owner of the ledger.
GRANT {owner} TO {user};

-- name: lock_migrations
-- Let no other migration run until the end of the transaction.
SELECT pg_advisory_xact_lock(hashtext('tideline.migration'));

-- name: become_owner
-- Act as the owner of the ledger from now on, so that what is created belongs to it.
SET ROLE {owner};

-- name: find_table
-- Find a table by schema and name.
SELECT FROM pg_tables WHERE schemaname = %(schema)s AND tablename = %(table)s;

-- name: list_roles
-- The roles that the ledger was given, by duty; none if one user does everything.
SELECT duty, name FROM tideline.role;

-- name: revoke_public
-- Take from everyone what is on the ledger: what each role needs is granted to it. Laws and queries of every role call the functions that stay.
-- Those of the range type belong to the superuser of the server: only if that is the ledger's owner as well does the statement above close them.
REVOKE ALL ON ALL TABLES IN SCHEMA tideline FROM PUBLIC;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA tideline FROM PUBLIC;
REVOKE ALL ON ALL ROUTINES IN SCHEMA tideline FROM PUBLIC;
REVOKE ALL ON SCHEMA tideline, tideline_staging FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
    tideline.covering(bigint, int8range), tideline.folding(text), tideline.has_loaded(text), tideline.may_have_committed(text),
    tideline.replaying(bigint, int8range), tideline.reserving(bigint, int8range), tideline.undoing(text), tideline.names(text, text), tideline.names(text, text, text)
    TO PUBLIC;

-- name: revoke_all
-- Take from a role every right on the ledger, so that it has no more than what is granted next.
REVOKE ALL ON ALL TABLES IN SCHEMA tideline FROM {role};
REVOKE ALL ON ALL SEQUENCES IN SCHEMA tideline FROM {role};
REVOKE ALL ON ALL ROUTINES IN SCHEMA tideline FROM {role};
REVOKE ALL ON SCHEMA tideline, tideline_staging FROM {role};

-- name: record_roles
-- Store which roles the ledger was given, in place of those before.
DELETE FROM tideline.role;
INSERT INTO tideline.role (duty, name) SELECT duty, name FROM unnest(%(duties)s::text[], %(names)s::text[]) AS given (duty, name);

-- name: grant
-- Grant one right.
GRANT {privilege} ON {kind} {object} TO {role};
