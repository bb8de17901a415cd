-- Try to lock migrations outside of a transaction, for this session. -> taken: whether this session, and no other, may
-- now run them.
SELECT pg_try_advisory_lock(hashtext('tideline.migration outside of a transaction')) AS taken;
