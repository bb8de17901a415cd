-- name: on_conflict
-- Let the row of a newer record replace the row of its key. There is no semicolon, because other statements contain this
-- one.
ON CONFLICT ({key}) DO UPDATE SET {assignments}

-- name: count_staged
-- Count what the winning tasks have staged, per stream: rows, and the distinct offsets that they come from.
SELECT tideline_stream AS stream_id, count(*) AS n_rows, count(DISTINCT kafka_offset) AS n_written
FROM {staging}
WHERE tideline_task = ANY (%(tasks)s)
GROUP BY tideline_stream;

-- name: delete_replaced
-- Delete the rows that a replay replaces: those that its pipeline has inserted for the ranges of the batch. Rows
-- outside of the ranges stay, and so do all rows of other pipelines that write to this table. The batches are found
-- first, by an index: a lookup for each row would cost more than the delete.
WITH ranges AS MATERIALIZED (
    SELECT stream_id, topic_id, partition, offsets, lower(offsets) AS start_offset, upper(offsets) AS end_offset
    FROM tideline.batch_range JOIN tideline.stream USING (stream_id)
    WHERE batch_id = %(batch_id)s
), ours AS MATERIALIZED (
    SELECT o.batch_id FROM ranges r, tideline.reserving(r.stream_id, r.offsets) o
    UNION
    SELECT o.batch_id FROM ranges r, tideline.replaying(r.stream_id, r.offsets) o
)
DELETE FROM {target} t USING ranges r
WHERE t.kafka_topic_id = r.topic_id AND t.kafka_partition = r.partition AND t.kafka_offset >= r.start_offset AND t.kafka_offset < r.end_offset
  AND t.tideline_batch IN (SELECT batch_id FROM ours);

-- name: insert_redriven
-- Insert the rows of a re-drive, as output of the batches that had rejected their records. Only rows of rejects that
-- the attempt has read are inserted, and each reject is matched by its attempt id. Rows of other records are left out,
-- and the row count then does not match. Publishing has locked the rejects before, so no reject can be deleted after
-- its row was inserted.
WITH rejects AS MATERIALIZED (
    SELECT reject.stream_id, reject.kafka_offset, reject.batch_id
    FROM tideline.staged_redrive r CROSS JOIN LATERAL unnest(r.offsets, r.rejected_by) AS one (kafka_offset, rejected_by)
    JOIN tideline.reject ON reject.stream_id = r.stream_id AND reject.kafka_offset = one.kafka_offset AND reject.attempt_id = one.rejected_by
    WHERE r.attempt_id = %(attempt_id)s
)
INSERT INTO {target} ({columns}, kafka_topic_id, kafka_partition, kafka_offset, tideline_batch)
SELECT {staged_columns}, stream.topic_id, stream.partition, s.kafka_offset, r.batch_id
FROM {staging} s
JOIN rejects r ON r.stream_id = s.tideline_stream AND r.kafka_offset = s.kafka_offset
JOIN tideline.stream ON stream.stream_id = r.stream_id
WHERE s.tideline_task = ANY (%(tasks)s);

-- name: insert_staged
-- Insert the rows of the winning tasks into the target, with the coordinates of their records. Rows that belong to no
-- range of the batch are left out, and the row count then does not match. The ranges are materialized because staging
-- tables have no statistics: the planner expects only a few rows and would look up each stream row by row, which takes
-- twice as long.
WITH ranges AS MATERIALIZED (
    SELECT stream_id, topic_id, partition, batch_id, lower(offsets) AS start_offset, upper(offsets) AS end_offset
    FROM tideline.batch_range JOIN tideline.stream USING (stream_id)
    WHERE batch_id = %(batch_id)s
)
INSERT INTO {target} ({columns}, kafka_topic_id, kafka_partition, kafka_offset, tideline_batch)
SELECT {staged_columns}, r.topic_id, r.partition, s.kafka_offset, r.batch_id
FROM {staging} s
JOIN ranges r ON r.stream_id = s.tideline_stream AND s.kafka_offset >= r.start_offset AND s.kafka_offset < r.end_offset
WHERE s.tideline_task = ANY (%(tasks)s);

-- name: check_now
-- Check deferred constraints now. At COMMIT, a row that breaks one could no longer be found.
SET CONSTRAINTS {constraints} IMMEDIATE;

-- name: count_folded
-- Count what the winning tasks of a stateful pipeline have staged, per stream: rows, and the distinct offsets whose
-- records have made rows. The rows of timers make no record a written one.
SELECT tideline_stream AS stream_id, count(*) AS n_rows, count(DISTINCT kafka_offset) FILTER (WHERE NOT tideline_expired) AS n_written
FROM {staging}
WHERE tideline_task = ANY (%(tasks)s)
GROUP BY tideline_stream;

-- name: insert_folded
-- Insert the rows that the winning tasks of a stateful pipeline have staged. The row of a timer has the coordinates of
-- the last record of its key, which an earlier batch may have loaded. Any other row that belongs to no range of the
-- batch is left out, and the row count then does not match.
INSERT INTO {target} ({columns}, kafka_topic_id, kafka_partition, kafka_offset, tideline_batch)
SELECT {staged_columns}, stream.topic_id, stream.partition, s.kafka_offset, b.batch_id
FROM {staging} s
JOIN tideline.batch b ON b.batch_id = %(batch_id)s
JOIN tideline.stream ON stream.stream_id = s.tideline_stream AND stream.pipeline = b.pipeline
LEFT JOIN tideline.batch_range r ON r.batch_id = b.batch_id AND r.stream_id = s.tideline_stream AND r.offsets @> s.kafka_offset
WHERE s.tideline_task = ANY (%(tasks)s) AND (s.tideline_expired OR r.batch_id IS NOT NULL);

-- name: list_doubled
-- Find a staged record with two rows of one key. A table that is partitioned by a column of its key would accept both
-- rows, if they are in different partitions.
SELECT tideline_stream, kafka_offset FROM {staging}
WHERE tideline_task = ANY (%(tasks)s)
GROUP BY {key} HAVING count(*) > 1
LIMIT 1;
