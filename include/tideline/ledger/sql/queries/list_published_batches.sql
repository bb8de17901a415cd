-- Batches that are published and whose heads have not moved, oldest first; locked against a second walk.
SELECT batch_id, kind::text FROM tideline.batch
WHERE pipeline = %(pipeline)s AND state = 'published'
ORDER BY batch_id
FOR NO KEY UPDATE;
