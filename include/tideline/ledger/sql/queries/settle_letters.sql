-- Record that the rejects of a batch are in the topic. Another sender may have recorded it before.
UPDATE tideline.letters SET sent_at = clock_timestamp() WHERE batch_id = %(batch_id)s AND sent_at IS NULL;
