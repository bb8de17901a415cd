-- Batches that are published and not advanced yet, oldest first. Locked, so that two concurrent advances take turns.
SELECT batch_id FROM tideline.batch
WHERE pipeline = %(pipeline)s AND state = 'published'
ORDER BY batch_id
FOR NO KEY UPDATE;
