-- name: view_server
-- Facts about the database that doctor needs before it queries the ledger's tables. `is_airflows`: the database holds
-- Airflow's own tables, which do not belong beside the ledger. `is_standby`: the server takes no writes. `owner`: whose the
-- ledger is; null if there is none.
SELECT current_setting('server_version') AS version, pg_is_in_recovery() AS is_standby,
       current_setting('server_encoding') AS encoding, current_setting('server_version_num')::int AS version_number,
       current_user::text AS user_name, current_database()::text AS database_name,
       to_regclass('tideline.migration') IS NOT NULL AS has_ledger,
       (SELECT count(DISTINCT relname) FROM pg_class
        WHERE relkind = 'r' AND relname IN ('dag_run', 'task_instance', 'alembic_version')) = 3 AS is_airflows,
       (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AS is_superuser,
       pg_get_userbyid(nspowner)::text AS owner, coalesce(pg_has_role(current_user, nspowner, 'MEMBER'), false) AS acts_as_owner
FROM (SELECT max(nspowner::bigint)::oid AS nspowner FROM pg_namespace WHERE nspname = 'tideline') AS ledger;

-- name: view_settings
-- Settings that this session began with, and where each comes from: default, configuration file, database, user, client.
SELECT name, current_setting(name) AS value, source FROM pg_settings WHERE name = ANY (%(names)s) ORDER BY name;

-- name: view_output_privileges
-- Whether the ledger's user can write an output table, or create it if it does not exist. DELETE is needed because a
-- replay deletes rows, and UPDATE where newer records replace rows.
SELECT c.oid IS NOT NULL AS exists,
       CASE WHEN c.oid IS NOT NULL
            THEN has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT') AND has_table_privilege(c.oid, 'DELETE')
                 AND (NOT %(upsert)s OR has_table_privilege(c.oid, 'UPDATE'))
            WHEN n.oid IS NOT NULL THEN has_schema_privilege(n.oid, 'CREATE')
            ELSE has_database_privilege(current_database(), 'CREATE') END AS can_write
FROM (VALUES (1)) AS one
LEFT JOIN pg_namespace n ON n.nspname = %(schema)s
LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = %(table)s AND c.relkind IN ('r', 'p');

-- name: view_unknown_rows
-- Streams of a pipeline for which the output table holds a row, at or above the head, that no batch of the ledger has
-- written there; each with the first such offset. This is so after the ledger is restored without its tables. Rows
-- below the heads are not compared: every offset there has an owner, and the comparison would read all rows.
SELECT s.topic, s.partition, first_one.kafka_offset, first_one.tideline_batch
FROM tideline.stream s CROSS JOIN LATERAL (
    SELECT t.kafka_offset, t.tideline_batch FROM {table} t
    WHERE t.kafka_topic_id = s.topic_id AND t.kafka_partition = s.partition AND t.kafka_offset >= s.next_offset
      AND NOT EXISTS (
        SELECT FROM tideline.batch b JOIN tideline.batch_range r USING (batch_id) JOIN tideline.stream o USING (stream_id)
        WHERE b.batch_id = t.tideline_batch AND b.state IN ('published', 'advanced', 'superseded')
          AND o.topic_id = t.kafka_topic_id AND o.partition = t.kafka_partition AND r.offsets @> t.kafka_offset)
    ORDER BY t.kafka_offset LIMIT 1) AS first_one
WHERE s.pipeline = %(pipeline)s AND s.state <> 'retired'
ORDER BY s.topic, s.partition;

-- name: view_miscounts
-- Published ranges whose counts do not add up: records without an outcome, or offsets that were not read. Constraints
-- keep this empty, so there is no index for it: this reads all ranges, once.
SELECT batch.pipeline, batch_id, topic, partition, lower(offsets) AS start_offset, upper(offsets) AS end_offset,
       n_read, n_written, n_rejected, n_filtered, n_gap
FROM tideline.batch_range JOIN tideline.batch USING (batch_id) JOIN tideline.stream USING (stream_id)
WHERE batch.state IN ('published', 'advanced', 'superseded')
  AND (%(pipeline)s::text IS NULL OR batch.pipeline = %(pipeline)s)
  AND (n_read = n_written + n_rejected + n_filtered AND n_read + n_gap = upper(offsets) - lower(offsets)) IS NOT TRUE
ORDER BY batch_id, topic, partition;

-- name: view_reject_miscounts
-- Ranges that a batch owns as a whole and whose count of rejects is not the number of its rejects that are kept; and
-- rejects at offsets that their batch does not own. Reads every range and every reject, each once: there is no index
-- that finds a broken law. The owner is looked up only for the few that do not fit.
WITH wrong AS MATERIALIZED (
    SELECT batch_id, stream_id, sum(n_kept) AS n_kept
    FROM (SELECT batch_id, stream_id, n_rejected, 0 AS n_kept FROM tideline.batch_range JOIN tideline.batch USING (batch_id)
          WHERE n_rejected > 0 AND (%(pipeline)s::text IS NULL OR pipeline = %(pipeline)s)
          UNION ALL
          SELECT batch_id, stream_id, 0, 1 FROM tideline.reject JOIN tideline.stream USING (stream_id)
          WHERE %(pipeline)s::text IS NULL OR pipeline = %(pipeline)s) AS both_sides
    GROUP BY batch_id, stream_id HAVING sum(n_rejected) <> sum(n_kept)
), strangers AS MATERIALIZED (
    SELECT batch_id, stream_id, count(*) AS n_strangers, min(kafka_offset) AS first, max(kafka_offset) AS last FROM tideline.reject JOIN tideline.stream USING (stream_id)
    WHERE (%(pipeline)s::text IS NULL OR pipeline = %(pipeline)s)
      AND NOT EXISTS (SELECT FROM tideline.coverage c
                      WHERE c.batch_id = reject.batch_id AND c.stream_id = reject.stream_id AND c.offsets @> reject.kafka_offset)
    GROUP BY batch_id, stream_id
)
SELECT stream.pipeline, batch_id, topic, partition, coalesce(lower(r.offsets), first) AS start_offset, coalesce(upper(r.offsets), last + 1) AS end_offset,
       r.n_rejected, coalesce(wrong.n_kept, r.n_rejected) AS n_kept, coalesce(n_strangers, 0) AS n_strangers
FROM wrong FULL JOIN strangers USING (batch_id, stream_id)
LEFT JOIN tideline.batch_range r USING (batch_id, stream_id) JOIN tideline.stream USING (stream_id)
WHERE n_strangers > 0
   OR EXISTS (SELECT FROM tideline.coverage c WHERE c.batch_id = r.batch_id AND c.stream_id = r.stream_id AND c.offsets @> r.offsets)
ORDER BY batch_id, topic, partition;

-- name: view_orphan_staging
-- Staging tables of attempts that no longer write: superseded, failed, or unknown to the ledger. Without those that may
-- still be committed outside. Each with its batch and the fence of its attempt, as far as the ledger knows them.
SELECT c.relname::text AS table_name, pg_total_relation_size(c.oid) AS n_bytes, a.batch_id, a.fence
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN LATERAL regexp_match(c.relname, '^attempt_([0-9a-f]+)(?:_deleted|_state)?$') AS m (part) ON true
LEFT JOIN tideline.attempt a ON a.attempt = CASE length(m.part[1]) WHEN 32 THEN m.part[1]::uuid END
LEFT JOIN tideline.batch b USING (batch_id)
WHERE n.nspname = 'tideline_staging' AND c.relkind = 'r' AND (b.state = 'writing' AND b.attempt = a.attempt) IS NOT TRUE
  AND (b.state IN ('planned', 'writing', 'failed') AND EXISTS (SELECT FROM tideline.intent i WHERE i.attempt_id = a.attempt_id)) IS NOT TRUE
ORDER BY a.attempt_id, c.relname;

-- name: view_orphan_rows
-- How many staged counts and rejects belong to attempts that no longer write and that no later attempt may settle. Attempts with staged rows are found one
-- after the other (a loose index scan), so that the rows of a living attempt, which may be many, are not read.
WITH RECURSIVE staged AS (
    (SELECT least((SELECT min(attempt_id) FROM tideline.staged_count), (SELECT min(attempt_id) FROM tideline.staged_reject)) AS attempt_id)
    UNION ALL
    SELECT least((SELECT min(attempt_id) FROM tideline.staged_count c WHERE c.attempt_id > staged.attempt_id),
                 (SELECT min(attempt_id) FROM tideline.staged_reject r WHERE r.attempt_id > staged.attempt_id))
    FROM staged WHERE staged.attempt_id IS NOT NULL
), dead AS MATERIALIZED (
    SELECT staged.attempt_id
    FROM staged, LATERAL (SELECT * FROM tideline.attempt a WHERE a.attempt_id = staged.attempt_id OFFSET 0) AS attempt JOIN tideline.batch USING (batch_id)
    WHERE NOT (batch.state = 'writing' AND batch.attempt = attempt.attempt)
      AND NOT (batch.state IN ('planned', 'writing', 'failed') AND EXISTS (SELECT FROM tideline.intent i WHERE i.attempt_id = staged.attempt_id OFFSET 0))
)
SELECT coalesce(sum((SELECT count(*) FROM tideline.staged_count c WHERE c.attempt_id = dead.attempt_id)), 0)::bigint AS n_counts,
       coalesce(sum((SELECT count(*) FROM tideline.staged_reject r WHERE r.attempt_id = dead.attempt_id)), 0)::bigint AS n_rejects
FROM dead;

-- name: view_silent_attempts
-- Attempts that hold a batch as writing and have sent no heartbeat for a while, by the database's clock.
SELECT batch.pipeline, batch.batch_id, batch.fence, attempt.dag_id, attempt.run_id, task_id, try_number, host, pid,
       extract(epoch FROM clock_timestamp() - heartbeat_at)::bigint AS silent_seconds
FROM tideline.batch JOIN tideline.attempt USING (attempt)
WHERE batch.state = 'writing' AND (%(pipeline)s::text IS NULL OR batch.pipeline = %(pipeline)s)
  AND heartbeat_at < clock_timestamp() - make_interval(secs => %(seconds)s)
ORDER BY batch.batch_id;

-- name: view_outside_batches
-- The newest batches of an outside sink with what their receipts must say: the attempt whose commit a published batch
-- is, how long ago it was intended, and all attempts.
SELECT b.batch_id, b.identity, b.state::text, w.attempt AS written_by, w.fence AS written_fence,
       extract(epoch FROM clock_timestamp() - i.at)::float8 AS age_seconds,
       ARRAY(SELECT a.attempt::text FROM tideline.attempt a WHERE a.batch_id = b.batch_id) AS attempts
FROM tideline.batch b LEFT JOIN tideline.attempt w ON w.attempt_id = b.written_by LEFT JOIN tideline.intent i ON i.attempt_id = b.written_by
WHERE b.pipeline = %(pipeline)s AND b.outside AND b.fence > 0
ORDER BY b.batch_id DESC LIMIT %(most)s;

-- name: view_unknown_batches
-- Those of the given identities that no batch of the ledger has, in the given order.
SELECT given.identity
FROM unnest(%(identities)s::uuid[]) WITH ORDINALITY AS given (identity, place)
WHERE NOT EXISTS (SELECT FROM tideline.batch b WHERE b.identity = given.identity OFFSET 0)
ORDER BY given.place;
