-- -> taken: whether this session, and no other, may now migrate outside of a transaction.
SELECT pg_try_advisory_lock(hashtext('tideline.migration outside of a transaction')) AS taken;
