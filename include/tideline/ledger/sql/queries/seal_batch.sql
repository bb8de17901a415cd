-- Record that no attempt below `fence` has committed, and that none ever can. A seal only rises.
UPDATE tideline.batch SET sealed_fence = %(fence)s
WHERE batch_id = %(batch_id)s AND sealed_fence < %(fence)s AND state IN ('writing', 'failed')
RETURNING batch_id;
