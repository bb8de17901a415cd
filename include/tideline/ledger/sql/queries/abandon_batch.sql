-- planned | failed -> abandoned: its offsets are free again.
UPDATE tideline.batch SET state = 'abandoned' WHERE batch_id = %(batch_id)s AND state IN ('planned', 'failed')
RETURNING batch_id;
