-- The state of a key after each batch that has changed it, newest first, as far back as undo is kept. `value` is null where nothing was kept. The
-- last row, without a batch, is how it was before. Looks the key up in each batch: these are `state.undo_batches` at most.
WITH changes AS MATERIALIZED (
    SELECT b.seq, b.batch_id, u.key, u.value, u.expires_at, u.stream_id, u.kafka_offset, u.existed
    FROM tideline.state_batch b JOIN tideline.state_undo u ON u.batch_id = b.batch_id AND u.key = ANY (%(state_keys)s)
    WHERE b.pipeline = %(pipeline)s AND b.undo = 'kept'
), versions AS (
    SELECT key, seq, batch_id, value, expires_at, stream_id, kafka_offset FROM (
        SELECT key, lag(seq) OVER w AS seq, lag(batch_id) OVER w AS batch_id, value, expires_at, stream_id, kafka_offset, existed FROM changes
        WINDOW w AS (PARTITION BY key ORDER BY seq)
    ) AS before WHERE seq IS NOT NULL OR existed
    UNION ALL
    SELECT coalesce(s.key, c.key), c.seq, coalesce(c.batch_id, s.batch_id), s.value, s.expires_at, s.stream_id, s.kafka_offset
    FROM (SELECT DISTINCT ON (key) key, seq, batch_id FROM changes ORDER BY key, seq DESC) AS c
    FULL JOIN (SELECT * FROM tideline.state WHERE pipeline = %(pipeline)s AND key = ANY (%(state_keys)s)) AS s USING (key)
)
SELECT v.key, v.batch_id, attempt.ended_at AS published_at, v.value, v.expires_at, stream.topic, stream.partition, v.kafka_offset
FROM versions v LEFT JOIN tideline.batch USING (batch_id) LEFT JOIN tideline.attempt ON attempt.attempt = batch.attempt
LEFT JOIN tideline.stream USING (stream_id)
ORDER BY v.key, v.seq DESC NULLS LAST, v.batch_id DESC NULLS LAST;
