-- name: read_session
-- Read who has set the settings of this session of the server.
SELECT current_setting('tideline.session', true)
