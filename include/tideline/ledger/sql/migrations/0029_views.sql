-- Views for those who ask the ledger in SQL. Their columns stay, where tables and functions may change with each release. A view shows what the user who
-- asks may see in the tables, and changes nothing.

CREATE VIEW tideline.run_offsets WITH (security_invoker) AS
SELECT given.pipeline, given.dag_id, given.run_id, position, batch_id, kind::text, batch.state::text, batch.run_id AS planned_by,
       stream_id, topic, topic_id, partition, lower(offsets) AS start_offset, upper(offsets) AS end_offset,
       n_read, n_written, n_rejected, n_filtered, n_gap
FROM tideline.run_batch AS given
JOIN tideline.batch USING (batch_id) JOIN tideline.batch_range USING (batch_id) JOIN tideline.stream USING (stream_id);
COMMENT ON VIEW tideline.run_offsets IS
    'the offset ranges that a DAG run was given, with the counts of published batches. Name pipeline, dag_id and run_id';

CREATE VIEW tideline.run_completeness WITH (security_invoker) AS
SELECT pipeline, dag_id, run_id, stream_id, topic, topic_id, partition, start_offset, end_offset,
       int8multirange(int8range(start_offset, end_offset)) - coalesce(loaded, '{}') AS not_loaded
FROM (
    SELECT of_run.*, topic, topic_id, partition, least(start_offset, first_offset) AS start_offset
    FROM (
        SELECT given.pipeline, dag_id, run_id, stream_id, min(lower(offsets)) AS first_offset, max(upper(offsets)) AS end_offset
        FROM tideline.run_batch AS given JOIN tideline.batch_range USING (batch_id)
        GROUP BY given.pipeline, dag_id, run_id, stream_id
    ) AS of_run JOIN tideline.stream USING (stream_id)
) AS read_by_the_run
CROSS JOIN LATERAL (
    SELECT range_agg(offsets::int8range) FILTER (WHERE batch_id IS NOT NULL) AS loaded
    FROM tideline.covering(stream_id, int8range(start_offset, end_offset))
) AS covered;
COMMENT ON VIEW tideline.run_completeness IS
    'for each partition of which a DAG run was given offsets: from the beginning of the stream, or from a first offset before it, to the last one, '
    'and what of it is not loaded. Name pipeline, dag_id and run_id';

CREATE VIEW tideline.missing_offsets WITH (security_invoker) AS
SELECT pipeline, stream_id, topic, topic_id, partition, lower(piece) AS start_offset, upper(piece) AS end_offset
FROM tideline.stream
CROSS JOIN LATERAL (
    SELECT range_agg(offsets::int8range) AS accounted FROM tideline.coverage WHERE coverage.stream_id = stream.stream_id
) AS covered
CROSS JOIN unnest(int8multirange(int8range(start_offset, next_offset)) - coalesce(accounted, '{}')) AS piece;
COMMENT ON VIEW tideline.missing_offsets IS
    'offsets before a head that no batch and no hole accounts for: always none. Reads all coverage of the pipelines that are asked for';

CREATE VIEW tideline.holes WITH (security_invoker) AS
SELECT pipeline, stream_id, topic, topic_id, partition, lower(offsets) AS start_offset, upper(offsets) AS end_offset,
       hole::text, reason, decided_by, recorded_at
FROM tideline.stream JOIN tideline.coverage USING (stream_id)
WHERE hole IS NOT NULL;
COMMENT ON VIEW tideline.holes IS 'offsets that were left out by a decision, each with its kind, the reason and who decided';
