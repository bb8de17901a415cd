-- name: set_session
-- Set what a session needs, whatever the server, the database, the role or a pooler has set: of `wanted` what this server
-- knows. `session` marks who has set it. A pooler shows by another `backend` than the one that the client was told.
SELECT pg_backend_pid() AS backend, current_setting('session_replication_role') AS replication_role,
       set_config('tideline.session', {session}, false) AS session,
       (SELECT count(set_config(key, value, false)) FROM jsonb_each_text({wanted}::jsonb)
        WHERE current_setting(key, true) IS NOT NULL) AS n_set

-- name: show_session
-- Show who has set the settings of this session. It takes no snapshot: the isolation level of the transaction may still be set.
SHOW tideline.session;
