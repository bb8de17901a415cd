-- Find a table by schema and name.
SELECT FROM pg_tables WHERE schemaname = %(schema)s AND tablename = %(table)s;
