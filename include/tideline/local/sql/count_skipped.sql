-- Count the offsets of a pipeline that are loaded, and those that were skipped, with the one who decided that; and the ends of its coverage.
SELECT coalesce(sum(upper(offsets) - lower(offsets)) FILTER (WHERE hole IS NULL), 0)::bigint AS n_loaded,
       coalesce(sum(upper(offsets) - lower(offsets)) FILTER (WHERE hole = 'skipped' AND decided_by = 'policy latest_wins'), 0)::bigint AS n_skipped,
       (SELECT max(max_time) FROM tideline.state_position WHERE pipeline = %(pipeline)s) AS max_time
FROM tideline.coverage JOIN tideline.stream USING (stream_id)
WHERE stream.pipeline = %(pipeline)s;
