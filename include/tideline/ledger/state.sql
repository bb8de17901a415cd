-- name: list_positions
-- How far the streams of a stateful batch are folded, in stream order. `is_next` says whether the batch continues there: only holes lie before its
-- range, and none that a rewind has left. `has_gap` says whether holes were left out since, or the topic was created again. A stream that a rewind has
-- taken back to its beginning is as it was before its first batch.
SELECT own.stream_id, own.topic, own.partition, own.since AS next_offset, own.max_time, own.version, own.start_offset,
       CASE WHEN own.since >= own.start_offset THEN own.since = own.start_offset
            ELSE coalesce(int8range(own.since, own.start_offset) <@ (
                SELECT range_agg(c.offsets::int8range) FROM tideline.covering(own.stream_id, int8range(own.since, own.start_offset)) c
                WHERE c.batch_id IS NULL AND c.hole <> 'rewound'), false) END AS is_next,
       CASE WHEN own.batch_id IS NOT NULL THEN own.since < own.start_offset ELSE EXISTS (
           SELECT FROM tideline.stream earlier JOIN tideline.state_position p USING (stream_id)
           WHERE earlier.pipeline = own.pipeline AND earlier.topic = own.topic AND earlier.partition = own.partition AND p.batch_id IS NOT NULL)
       END AS has_gap
FROM (SELECT stream_id, s.pipeline, topic, partition, coalesce(p.next_offset, s.start_offset) AS since, p.max_time, coalesce(p.version, 0) AS version,
             p.batch_id, lower(offsets) AS start_offset
      FROM tideline.batch_range r JOIN tideline.stream s USING (stream_id) LEFT JOIN tideline.state_position p USING (stream_id)
      WHERE r.batch_id = %(batch_id)s) AS own
ORDER BY stream_id;

-- name: list_plans
-- When the offsets of an open batch were planned: for itself, and for batches over them that were abandoned or rewound, the parts that it has too.
SELECT own.stream_id, lower(own.offsets) AS start_offset, upper(own.offsets) AS end_offset, planned_at
FROM tideline.batch_range own JOIN tideline.batch USING (batch_id)
WHERE batch_id = %(batch_id)s
UNION ALL
SELECT own.stream_id, greatest(lower(own.offsets), lower(theirs.offsets)), least(upper(own.offsets), upper(theirs.offsets)), b.planned_at
FROM tideline.batch_range own CROSS JOIN LATERAL tideline.replaying(own.stream_id, own.offsets) theirs
JOIN tideline.batch b ON b.batch_id = theirs.batch_id
WHERE own.batch_id = %(batch_id)s
ORDER BY stream_id, start_offset, end_offset, planned_at;

-- name: find_newest_fold
-- The number of the newest batch that was folded into the state of a pipeline, also if it was rewound since; 0 before the first one.
SELECT coalesce(max(seq), 0) AS seq FROM tideline.state_batch WHERE pipeline = %(pipeline)s;
