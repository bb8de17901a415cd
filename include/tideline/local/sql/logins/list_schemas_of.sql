-- List the schemas of a role, and the one that every database has.
SELECT nspname::text AS name FROM pg_namespace WHERE nspowner = %(role)s::regrole OR nspname = 'public' ORDER BY nspname;
