-- name: list_silent_claims
-- Batches of a pipeline whose attempt has sent no heartbeat for long. Its writer counts as dead. If it still lives, it
-- can no longer publish once the batch is failed.
SELECT batch.batch_id, attempt.attempt, attempt.fence, attempt.host, attempt.pid,
       extract(epoch FROM clock_timestamp() - attempt.heartbeat_at)::float8 AS silent_seconds
FROM tideline.batch JOIN tideline.attempt ON attempt.attempt = batch.attempt
WHERE batch.pipeline = %(pipeline)s AND batch.state = 'writing' AND attempt.heartbeat_at < clock_timestamp() - make_interval(secs => %(silent_seconds)s)
ORDER BY batch.batch_id;

-- name: list_dead_staging
-- Staging tables of a pipeline whose attempts can no longer publish: the attempt has ended, or a newer one holds its
-- batch. Those of an attempt that may still commit them outside stay until its batch is closed.
SELECT t.tablename AS name
FROM pg_tables t CROSS JOIN LATERAL regexp_match(t.tablename, '^attempt_([0-9a-f]+)(?:_deleted|_state)?$') AS m (part)
JOIN tideline.attempt ON attempt.attempt = CASE length(m.part[1]) WHEN 32 THEN m.part[1]::uuid END JOIN tideline.batch USING (batch_id)
WHERE t.schemaname = 'tideline_staging' AND batch.pipeline = %(pipeline)s AND NOT (batch.state = 'writing' AND batch.attempt = attempt.attempt)
  AND NOT (batch.state IN ('planned', 'writing', 'failed') AND EXISTS (SELECT FROM tideline.intent WHERE intent.attempt_id = attempt.attempt_id))
ORDER BY attempt.attempt_id, t.tablename;

-- name: clear_dead_staging
-- Delete the staged counts, the staged rejects and the lists of re-driven rejects of attempts that can no longer
-- publish, and that have no intent which a later attempt may settle. -> n_rows deleted. Looks only at attempts that
-- have staged rows, and finds each one after the one before (a loose index scan): these are few, while the attempts of
-- the whole history are many.
WITH RECURSIVE staged AS (
    (SELECT least((SELECT min(attempt_id) FROM tideline.staged_count), (SELECT min(attempt_id) FROM tideline.staged_reject),
                  (SELECT min(attempt_id) FROM tideline.staged_redrive)) AS attempt_id)
    UNION ALL
    SELECT least((SELECT min(attempt_id) FROM tideline.staged_count c WHERE c.attempt_id > staged.attempt_id),
                 (SELECT min(attempt_id) FROM tideline.staged_reject r WHERE r.attempt_id > staged.attempt_id),
                 (SELECT min(attempt_id) FROM tideline.staged_redrive d WHERE d.attempt_id > staged.attempt_id))
    FROM staged WHERE staged.attempt_id IS NOT NULL
), dead AS MATERIALIZED (
    SELECT staged.attempt_id
    FROM staged, LATERAL (SELECT * FROM tideline.attempt a WHERE a.attempt_id = staged.attempt_id OFFSET 0) AS attempt JOIN tideline.batch USING (batch_id)
    WHERE batch.pipeline = %(pipeline)s AND NOT (batch.state = 'writing' AND batch.attempt = attempt.attempt)
      AND NOT (batch.state IN ('planned', 'writing', 'failed') AND EXISTS (SELECT FROM tideline.intent i WHERE i.attempt_id = staged.attempt_id OFFSET 0))
), counts AS (
    DELETE FROM tideline.staged_count WHERE attempt_id = ANY (ARRAY(SELECT attempt_id FROM dead)) RETURNING 1
), rejects AS (
    DELETE FROM tideline.staged_reject WHERE attempt_id = ANY (ARRAY(SELECT attempt_id FROM dead)) RETURNING 1
), redriven AS (
    DELETE FROM tideline.staged_redrive WHERE attempt_id = ANY (ARRAY(SELECT attempt_id FROM dead)) RETURNING 1
)
SELECT (SELECT count(*) FROM counts) + (SELECT count(*) FROM rejects) + (SELECT count(*) FROM redriven) AS n_rows;

-- name: drop_dead_staging
-- Drop one staging table whose attempt can no longer publish. It may belong to another role.
SELECT tideline.drop_staging(%(table)s);

-- name: prune_events
-- Delete a pipeline's events that are older than declared, except those of open or published batches. -> how many. Only
-- this function of the ledger's owner can delete events.
SELECT tideline.prune_events(%(pipeline)s, %(days)s) AS n_events;

-- name: prune_marks
-- Delete the marks of tombstones that no older record can come before any more: Kafka has deleted what was before them,
-- and neither an open batch nor a reject holds an older record, of this topic or of an earlier incarnation of it. Of a topic
-- that was given up and followed again, each other incarnation counts as earlier. The start of a log only rises, so what
-- the batch before the head has recorded of it is still true.
WITH open_range AS MATERIALIZED (
    SELECT r.stream_id, min(lower(r.offsets)) AS first_offset
    FROM tideline.batch b JOIN tideline.batch_range r USING (batch_id)
    WHERE b.state IN ('planned', 'writing', 'failed') GROUP BY r.stream_id
), stream AS MATERIALIZED (
    SELECT s.cluster_id, s.topic, s.topic_id, s.partition, s.returned_offset, min(s.stream_id) OVER (PARTITION BY s.topic_id) AS incarnation,
           least(CASE WHEN s.state <> 'retired' THEN coalesce(
                     (SELECT max(greatest(r.planned_log_start, r.published_log_start))
                      FROM tideline.reserving(s.stream_id, int8range(s.next_offset - 1, s.next_offset)) r), 0) END,
                 o.first_offset,
                 (SELECT min(j.kafka_offset) FROM tideline.reject j WHERE j.stream_id = s.stream_id)) AS first_to_come
    FROM tideline.stream s LEFT JOIN open_range o USING (stream_id)
)
DELETE FROM {marks} m
WHERE EXISTS (SELECT FROM stream s WHERE s.topic_id = m.kafka_topic_id)
  AND NOT EXISTS (
    SELECT FROM stream s JOIN stream o ON (o.cluster_id, o.topic) = (s.cluster_id, s.topic)
    WHERE s.topic_id = m.kafka_topic_id
      AND ((o.incarnation < s.incarnation OR s.returned_offset IS NOT NULL AND o.incarnation <> s.incarnation) AND o.first_to_come IS NOT NULL
           OR o.topic_id = s.topic_id AND o.partition = m.kafka_partition AND o.first_to_come < m.kafka_offset));
