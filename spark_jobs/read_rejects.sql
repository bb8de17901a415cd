-- One slice of a re-drive's rejects, as they came from Kafka; those that are gone since are not there.
SELECT kafka_offset, kafka_timestamp_ms, key, value, headers
FROM tideline.redrive JOIN tideline.reject USING (stream_id, kafka_offset)
WHERE redrive.batch_id = %(batch_id)s AND stream_id = %(stream_id)s AND kafka_offset >= %(start)s AND kafka_offset < %(end)s
ORDER BY kafka_offset;
