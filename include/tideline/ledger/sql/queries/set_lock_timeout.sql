-- How long the session's statements wait for a lock; 0 is without end.
SELECT set_config('lock_timeout', %(milliseconds)s::text, false);
