-- Release the lock of migrations outside of a transaction.
SELECT pg_advisory_unlock(hashtext('tideline.migration outside of a transaction'));
