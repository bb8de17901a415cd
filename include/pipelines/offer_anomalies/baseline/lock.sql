-- One run at a time. It also keeps two sessions from creating the same tables at once, which IF NOT EXISTS does not.
SELECT pg_advisory_xact_lock(hashtextextended('ads.baseline', 0));
