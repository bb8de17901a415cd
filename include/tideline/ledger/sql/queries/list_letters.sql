-- List the rejects that a batch still has, in the order of the source, with the record's topic id and partition.
SELECT stream.topic_id, stream.partition, reject.kafka_offset, reject.step, reject.reason, reject.key, reject.value, reject.headers
FROM tideline.reject JOIN tideline.stream USING (stream_id)
WHERE reject.batch_id = %(batch_id)s
ORDER BY reject.stream_id, reject.kafka_offset;
