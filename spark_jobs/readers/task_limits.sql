-- name: count_free_connections
-- Count the connections that a role can still open: the least that the server, the database and the role have left. What is kept for superusers does
-- not count. pg_stat_database counts the sessions of all roles; a role that may not read pg_stat_activity sees there at least whose session each is.
SELECT greatest(0, least(
    current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint
        - coalesce(nullif(current_setting('reserved_connections', true), ''), '0')::bigint - (SELECT sum(numbackends) FROM pg_stat_database),
    (SELECT datconnlimit - numbackends FROM pg_database JOIN pg_stat_database ON pg_stat_database.datid = pg_database.oid
     WHERE pg_database.datname = current_database() AND datconnlimit >= 0),
    (SELECT rolconnlimit - (SELECT count(*) FROM pg_stat_activity WHERE usesysid = pg_roles.oid) FROM pg_roles
     WHERE rolname = coalesce(%(role)s, current_user) AND rolconnlimit >= 0)
)) AS n_free;
