-- Let no other migration run until the end of the transaction.
SELECT pg_advisory_xact_lock(hashtext('tideline.migration'));
