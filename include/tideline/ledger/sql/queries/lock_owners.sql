-- The batches that own the offsets that a batch is about to take, locked oldest first. The second statement reads the
-- owners again after the lock, and so shows whether another transaction has changed them meanwhile.
SELECT batch_id FROM tideline.batch WHERE batch_id IN (
    SELECT c.batch_id FROM tideline.batch_range r, LATERAL tideline.covering(r.stream_id, r.offsets) c WHERE r.batch_id = %(batch_id)s)
ORDER BY batch_id FOR NO KEY UPDATE;
SELECT DISTINCT c.batch_id FROM tideline.batch_range r, LATERAL tideline.covering(r.stream_id, r.offsets) c
WHERE r.batch_id = %(batch_id)s AND c.batch_id IS NOT NULL ORDER BY c.batch_id;
