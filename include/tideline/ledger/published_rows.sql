-- name: view_written_ranges
-- The ranges of the newest published batches of a pipeline that their batch owns as a whole, with how many records the
-- output has to hold of each under the number of the batch: re-drives keep that count up to date. Only of batches
-- that were committed to the outside sink that is named; of a table in this database, since the pipeline has claimed it.
SELECT newest.batch_id, s.topic, s.topic_id::text AS topic_id, s.partition, lower(r.offsets) AS start_offset, upper(r.offsets) AS end_offset, r.n_written
FROM (SELECT b.batch_id FROM tideline.batch b LEFT JOIN tideline.intent i ON i.attempt_id = b.written_by
      WHERE b.pipeline = %(pipeline)s AND b.state IN ('published', 'advanced') AND b.kind <> 'redrive' AND NOT b.stateful
        AND i.output IS NOT DISTINCT FROM %(output)s
        -- A claim does not move while a batch is being written, so an attempt that began before has written to the former table.
        AND (i.output IS NOT NULL OR NOT EXISTS (
            SELECT FROM tideline.claimed_output c JOIN tideline.attempt a ON a.attempt = b.attempt
            WHERE c.pipeline = b.pipeline AND c.purpose = 'rows' AND a.started_at < c.claimed_at))
      ORDER BY b.batch_id DESC LIMIT %(most)s) AS newest
JOIN tideline.batch_range r USING (batch_id) JOIN tideline.stream s USING (stream_id)
WHERE EXISTS (SELECT FROM tideline.coverage c WHERE c.batch_id = r.batch_id AND c.stream_id = r.stream_id AND c.offsets @> r.offsets)
  -- Not where an outside sink is a step ahead of the ledger.
  AND NOT EXISTS (SELECT FROM tideline.replaying(r.stream_id, r.offsets::int8range) o JOIN tideline.batch b USING (batch_id)
                  WHERE b.state IN ('planned', 'writing', 'failed'))
ORDER BY newest.batch_id DESC, s.topic, s.partition;

-- name: view_sent_batches
-- The published batches that an attempt has committed to an outside sink last, with rows, and where the output ended before that. In the
-- order of their commits, which is not that of their numbers: a batch that has failed is written behind younger ones.
SELECT b.batch_id, i.n_rows, i.position, extract(epoch FROM clock_timestamp() - i.at)::float8 AS age_seconds
FROM tideline.batch b JOIN tideline.intent i ON i.attempt_id = b.written_by
WHERE b.pipeline = %(pipeline)s AND b.state IN ('published', 'advanced') AND i.output = %(output)s AND i.position IS NOT NULL AND i.n_rows > 0
ORDER BY i.at DESC, i.attempt_id DESC LIMIT %(most)s;

-- name: view_missing_rows
-- Of ranges with the number of records that an output table has to hold of each under their batch: those of which it holds another number.
SELECT w.batch_id, w.topic_id::text AS topic_id, w.partition, w.start_offset, count(DISTINCT t.kafka_offset) AS n_found
FROM unnest(%(batch_ids)s::bigint[], %(topic_ids)s::uuid[], %(partitions)s::integer[], %(starts)s::bigint[], %(ends)s::bigint[], %(n_written)s::bigint[])
     AS w (batch_id, topic_id, partition, start_offset, end_offset, n_written)
LEFT JOIN {table} t ON t.tideline_batch = w.batch_id AND t.kafka_topic_id = w.topic_id AND t.kafka_partition = w.partition
     AND t.kafka_offset >= w.start_offset AND t.kafka_offset < w.end_offset
GROUP BY w.batch_id, w.topic_id, w.partition, w.start_offset, w.n_written
HAVING count(DISTINCT t.kafka_offset) <> w.n_written
ORDER BY w.batch_id, w.partition;

-- name: view_any_row
-- One row, if the table has any.
SELECT 1 AS there FROM {table} LIMIT 1;
