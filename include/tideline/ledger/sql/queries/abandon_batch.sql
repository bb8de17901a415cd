-- Abandon a batch that no attempt writes (planned | failed -> abandoned). Its offsets can be planned again.
UPDATE tideline.batch SET state = 'abandoned' WHERE batch_id = %(batch_id)s AND state IN ('planned', 'failed')
RETURNING batch_id;
