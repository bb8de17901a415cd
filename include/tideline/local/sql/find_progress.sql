-- How far a stateful pipeline is: the offsets that are loaded, those that its policy has skipped, the newest event time, and the newest batch.
SELECT coalesce(sum(upper(offsets) - lower(offsets)) FILTER (WHERE hole IS NULL), 0)::bigint AS n_loaded,
       coalesce(sum(upper(offsets) - lower(offsets)) FILTER (WHERE hole = 'skipped' AND decided_by = 'policy latest_wins'), 0)::bigint AS n_skipped,
       (SELECT max(max_time) FROM tideline.state_position WHERE pipeline = %(pipeline)s) AS max_time,
       (SELECT coalesce(max(batch_id), 0) FROM tideline.batch WHERE pipeline = %(pipeline)s) AS newest_batch
FROM tideline.coverage JOIN tideline.stream USING (stream_id)
WHERE stream.pipeline = %(pipeline)s;
