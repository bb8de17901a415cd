-- name: lock_release
-- The number of migrations of the ledger. Until the end of the transaction no migration is applied: one that runs is
-- waited for, and counts.
SELECT pg_advisory_xact_lock_shared(hashtext('tideline.migration'));
SELECT count(*) AS n_applied FROM tideline.migration;

-- name: move_rejects
-- Copy an attempt's staged rejects into the rejects of the batch.
INSERT INTO tideline.reject (stream_id, kafka_offset, batch_id, attempt_id, step, reason, kafka_timestamp_ms, key, value, headers)
SELECT stream_id, kafka_offset, %(batch_id)s, attempt_id, step, reason, kafka_timestamp_ms, key, value, headers
FROM tideline.staged_reject WHERE attempt_id = %(attempt_id)s;

-- name: record_counts
-- Store what an attempt has read, written and rejected, for each range of its batch, with what the broker reported
-- after the read. A range from which nothing was read (transaction markers only) counts zero. If the transform sees the
-- whole batch, the number of records that it filtered is known only as the difference. The table's checks refuse counts
-- that do not add up.
UPDATE tideline.batch_range r
SET n_read = coalesce(c.n_read, 0),
    n_written = coalesce(w.n_written, 0),
    n_rejected = coalesce(j.n_rejected, 0),
    n_filtered = CASE WHEN %(filtered_by_difference)s THEN coalesce(c.n_read, 0) - coalesce(w.n_written, 0) - coalesce(j.n_rejected, 0)
                      ELSE coalesce(c.n_filtered, 0) END,
    n_gap = upper(r.offsets) - lower(r.offsets) - coalesce(c.n_read, 0),
    n_bytes = coalesce(c.n_bytes, 0),
    first_read = c.first_read,
    last_read = c.last_read,
    published_log_start = (f.facts ->> 'log_start')::bigint,
    published_end = (f.facts ->> 'end')::bigint
FROM tideline.batch_range this
LEFT JOIN jsonb_each(%(facts)s) AS f (stream, facts) ON f.stream = this.stream_id::text
LEFT JOIN (
    SELECT stream_id, sum(n_read) AS n_read, sum(n_filtered) AS n_filtered, sum(n_bytes) AS n_bytes, min(first_read) AS first_read, max(last_read) AS last_read
    FROM tideline.staged_count WHERE attempt_id = %(attempt_id)s GROUP BY stream_id
) c ON c.stream_id = this.stream_id
LEFT JOIN (
    SELECT stream_id, count(*) AS n_rejected FROM tideline.staged_reject WHERE attempt_id = %(attempt_id)s GROUP BY stream_id
) j ON j.stream_id = this.stream_id
LEFT JOIN jsonb_to_recordset(%(written)s) AS w (stream_id bigint, n_written bigint) ON w.stream_id = this.stream_id
WHERE r.batch_id = %(batch_id)s AND this.batch_id = r.batch_id AND this.stream_id = r.stream_id
RETURNING r.stream_id;

-- name: publish_batch
-- writing -> published, only by the attempt that holds the batch.
UPDATE tideline.batch SET state = 'published'
WHERE batch_id = %(batch_id)s AND state = 'writing' AND attempt = %(attempt)s
RETURNING batch_id;

-- name: cover_batch
-- Record in the coverage that the batch owns its ranges.
INSERT INTO tideline.coverage (stream_id, offsets, batch_id)
SELECT stream_id, offsets, batch_id FROM tideline.batch_range WHERE batch_id = %(batch_id)s ORDER BY stream_id;

-- name: clear_staging
-- Delete what the attempts of a batch have left in the ledger's own staging tables.
WITH attempts AS MATERIALIZED (SELECT attempt_id FROM tideline.attempt WHERE batch_id = %(batch_id)s),
     counts AS (DELETE FROM tideline.staged_count USING attempts WHERE staged_count.attempt_id = attempts.attempt_id),
     redriven AS (DELETE FROM tideline.staged_redrive USING attempts WHERE staged_redrive.attempt_id = attempts.attempt_id)
DELETE FROM tideline.staged_reject USING attempts WHERE staged_reject.attempt_id = attempts.attempt_id;

-- name: lock_owners
-- The batches that own the offsets that a batch is about to take, locked oldest first. The second statement reads the
-- owners again after the lock, and so shows whether another transaction has changed them meanwhile.
SELECT batch_id FROM tideline.batch WHERE batch_id IN (
    SELECT c.batch_id FROM tideline.batch_range r, LATERAL tideline.covering(r.stream_id, r.offsets) c WHERE r.batch_id = %(batch_id)s)
ORDER BY batch_id FOR NO KEY UPDATE;
SELECT DISTINCT c.batch_id FROM tideline.batch_range r, LATERAL tideline.covering(r.stream_id, r.offsets) c
WHERE r.batch_id = %(batch_id)s AND c.batch_id IS NOT NULL ORDER BY c.batch_id;

-- name: uncover_ranges
-- Remove a batch's ranges from the coverage of their owners. What these own outside of the ranges stays theirs. Rows
-- are locked first: otherwise two backfills of one hole would both replace the same row, and the second one would not
-- see what the first had left of it.
SELECT FROM tideline.coverage WHERE coverage_id IN (
    SELECT c.coverage_id FROM tideline.batch_range r, LATERAL tideline.covering(r.stream_id, r.offsets) c WHERE r.batch_id = %(batch_id)s)
ORDER BY coverage_id FOR UPDATE;
WITH gone AS (
    DELETE FROM tideline.coverage c USING tideline.batch_range r, LATERAL tideline.covering(r.stream_id, r.offsets) found
    WHERE r.batch_id = %(batch_id)s AND c.coverage_id = found.coverage_id
    RETURNING c.*, r.offsets AS taken
)
INSERT INTO tideline.coverage (stream_id, offsets, batch_id, hole, reason, decided_by, recorded_at, decided_in)
SELECT stream_id, piece, batch_id, hole, reason, decided_by, recorded_at, decided_in
FROM gone, LATERAL unnest(int8multirange(offsets::int8range) - int8multirange(taken::int8range)) AS piece;

-- name: replace_rejects
-- Delete the rejects within a batch's ranges: the batch has read these records again.
DELETE FROM tideline.reject USING tideline.batch_range r
WHERE r.batch_id = %(batch_id)s AND reject.stream_id = r.stream_id AND r.offsets @> reject.kafka_offset;

-- name: supersede_batches
-- published | advanced -> superseded: those of the given batches that own no offsets any more.
UPDATE tideline.batch SET state = 'superseded'
WHERE batch_id = ANY (%(batch_ids)s) AND state IN ('published', 'advanced') AND NOT EXISTS (SELECT FROM tideline.coverage c WHERE c.batch_id = batch.batch_id)
RETURNING batch_id;
