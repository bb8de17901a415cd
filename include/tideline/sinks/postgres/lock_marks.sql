-- Let only one transaction at a time publish into an upsert table. Each compares its records with the rows and deletions
-- that the others have committed. Published batches wait for one another here longer than for other locks, because a
-- large one takes a while.
SET LOCAL lock_timeout = '15min';
LOCK TABLE {marks} IN SHARE ROW EXCLUSIVE MODE;
SET LOCAL lock_timeout TO DEFAULT;
