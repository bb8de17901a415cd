-- How far each stream of a pipeline is folded, and what it keeps: the number of keys, their bytes, the next timer, and the batch that has
-- left a state alone for longest. Reads all states of the pipeline.
SELECT s.topic, s.partition, p.stream_id, s.state::text, p.next_offset, s.next_offset AS head, p.max_time,
       coalesce(k.n_keys, 0) AS n_keys, coalesce(k.n_bytes, 0) AS n_bytes, k.next_timer, k.oldest_batch
FROM tideline.state_position p JOIN tideline.stream s USING (stream_id)
LEFT JOIN (
    SELECT stream_id, count(*) AS n_keys, sum(octet_length(value::text))::bigint AS n_bytes, min(expires_at) AS next_timer, min(batch_id) AS oldest_batch
    FROM tideline.state WHERE pipeline = %(pipeline)s GROUP BY stream_id
) AS k USING (stream_id)
WHERE p.pipeline = %(pipeline)s
ORDER BY topic, partition, stream_id;
