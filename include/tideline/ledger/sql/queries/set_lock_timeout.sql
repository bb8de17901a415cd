-- Set how long the session's statements wait for a lock; 0 means no limit.
SELECT set_config('lock_timeout', %(milliseconds)s::text, false);
