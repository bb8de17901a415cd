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
