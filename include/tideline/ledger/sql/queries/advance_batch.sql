-- published -> advanced.
UPDATE tideline.batch SET state = 'advanced' WHERE batch_id = %(batch_id)s AND state = 'published'
RETURNING batch_id;
