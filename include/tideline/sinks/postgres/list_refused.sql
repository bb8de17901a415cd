-- List the records of a trial that the target has refused, in order, each with the reason and its SQLSTATE.
SELECT stream_id, t.kafka_offset, t.reason, t.state
FROM {records} t
JOIN tideline.stream ON stream.topic_id = t.kafka_topic_id AND stream.partition = t.kafka_partition
JOIN tideline.batch_range r USING (stream_id)
WHERE r.batch_id = %(batch_id)s AND t.reason IS NOT NULL
ORDER BY t.number;
