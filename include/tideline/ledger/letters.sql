-- name: list_owed_letters
-- List the published batches of a pipeline whose rejects are not yet known to be in its topic of rejects, oldest first; each with the attempt
-- that has published it: a ledger that was restored may know another one.
SELECT letters.batch_id, batch.identity, batch.attempt
FROM tideline.letters JOIN tideline.batch USING (batch_id)
WHERE letters.pipeline = %(pipeline)s AND letters.sent_at IS NULL ORDER BY letters.batch_id;

-- name: list_letters
-- List the rejects that a batch still has, in the order of the source, with the record's topic id and partition.
SELECT stream.topic_id, stream.partition, reject.kafka_offset, reject.step, reject.reason, reject.key, reject.value, reject.headers
FROM tideline.reject JOIN tideline.stream USING (stream_id)
WHERE reject.batch_id = %(batch_id)s
ORDER BY reject.stream_id, reject.kafka_offset;

-- name: settle_letters
-- Record that the rejects of a batch are in the topic. Another sender may have recorded it before.
UPDATE tideline.letters SET sent_at = clock_timestamp() WHERE batch_id = %(batch_id)s AND sent_at IS NULL;
