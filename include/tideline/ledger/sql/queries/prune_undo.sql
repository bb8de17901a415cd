-- kept -> pruned: the undo of all batches but the newest ones. -> the batches.
UPDATE tideline.state_batch SET undo = 'pruned'
WHERE pipeline = %(pipeline)s AND undo = 'kept' AND seq <= (
    SELECT seq FROM tideline.state_batch WHERE pipeline = %(pipeline)s AND undo = 'kept' ORDER BY seq DESC OFFSET %(most)s LIMIT 1)
RETURNING batch_id;
