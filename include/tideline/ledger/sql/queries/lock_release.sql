-- The number of migrations of the ledger. Until the end of the transaction no migration is applied: one that runs is
-- waited for, and counts.
SELECT pg_advisory_xact_lock_shared(hashtext('tideline.migration'));
SELECT count(*) AS n_applied FROM tideline.migration;
