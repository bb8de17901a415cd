-- name: view_privileges
-- Which of the given rights a user lacks, by their numbers; null for the user of this session.
SELECT number
FROM unnest(%(kinds)s::text[], %(names)s::text[], %(privileges)s::text[]) WITH ORDINALITY AS needed (kind, name, privilege, number),
     (SELECT coalesce(%(user)s, current_user) AS role) AS asked
WHERE NOT CASE kind
    WHEN 'TABLE' THEN has_table_privilege(role, name, privilege)
    WHEN 'FUNCTION' THEN has_function_privilege(role, name, privilege)
    WHEN 'SCHEMA' THEN has_schema_privilege(role, name, privilege)
    ELSE has_database_privilege(role, current_database(), privilege) END
ORDER BY number;
