-- The role of the executors, if it is another one than this session's and exists on this server.
SELECT name FROM tideline.role JOIN pg_roles ON rolname = name WHERE duty = 'stager' AND name <> current_user;
