-- Which of these roles exist, and whether this user may act as each.
SELECT rolname::text AS name, pg_has_role(current_user, oid, 'MEMBER') AS is_member FROM pg_roles WHERE rolname = ANY (%(names)s::text[]);
