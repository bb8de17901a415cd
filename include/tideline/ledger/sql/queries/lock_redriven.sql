-- The rejects that a re-drive takes and that are still there, locked until it has published; the statement after the lock sees what is left.
SELECT FROM tideline.reject JOIN tideline.redrive USING (stream_id, kafka_offset)
WHERE redrive.batch_id = %(batch_id)s ORDER BY stream_id, kafka_offset FOR UPDATE OF reject;
SELECT count(*) AS n_rejects FROM tideline.reject JOIN tideline.redrive USING (stream_id, kafka_offset) WHERE redrive.batch_id = %(batch_id)s;
