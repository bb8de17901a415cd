-- name: begin_reading
-- The first statement of a read-only transaction: all later statements use one snapshot, and none can change anything
-- by mistake.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY;

-- name: view_pipeline_names
-- The names of all pipelines that the ledger knows, and since when those are retired that are.
SELECT pipeline, retired_at FROM tideline.pipeline ORDER BY pipeline;

-- name: view_pipelines
-- The pipelines that the ledger knows: since when it is retired, streams by state, unfinished batches by state, and when
-- a batch was last published.
SELECT pipeline, created_at, retired_at, n_streams, n_active, n_stopped, n_retired, n_planned, n_writing, n_failed, n_published,
       last_published_at
FROM tideline.pipeline
CROSS JOIN LATERAL (
    SELECT count(*) AS n_streams,
           count(*) FILTER (WHERE state = 'active') AS n_active,
           count(*) FILTER (WHERE state = 'stopped') AS n_stopped,
           count(*) FILTER (WHERE state = 'retired') AS n_retired
    FROM tideline.stream WHERE stream.pipeline = pipeline.pipeline
) AS streams
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE state = 'planned') AS n_planned,
           count(*) FILTER (WHERE state = 'writing') AS n_writing,
           count(*) FILTER (WHERE state = 'failed') AS n_failed,
           count(*) FILTER (WHERE state = 'published') AS n_published
    FROM tideline.batch
    WHERE batch.pipeline = pipeline.pipeline AND state IN ('planned', 'writing', 'failed', 'published')  -- the states in the index batch_open
) AS batches
LEFT JOIN LATERAL (
    SELECT ended_at AS last_published_at
    FROM tideline.batch JOIN tideline.attempt USING (attempt)
    WHERE batch.pipeline = pipeline.pipeline AND outcome = 'published'
    ORDER BY batch.batch_id DESC LIMIT 1
) AS latest ON true
ORDER BY pipeline;

-- name: view_streams
-- The streams of a pipeline and what is taken at or above each head: ranges that batches have reserved, and holes.
-- Newer incarnations of a topic come last. Locks nothing.
SELECT stream_id, cluster_id, topic, topic_id, partition, start_offset, next_offset, accepted_end, leader_epoch, state::text, stopped_because, created_at,
       coalesce((SELECT array_agg(ARRAY[lower(offsets), upper(offsets)] ORDER BY offsets)
                 FROM (SELECT offsets FROM tideline.reserving(stream_id, int8range(next_offset, NULL))
                       UNION ALL
                       SELECT offsets FROM tideline.covering(stream_id, int8range(next_offset, NULL)) WHERE hole IS NOT NULL) AS taken), '{}') AS reserved
FROM tideline.stream
WHERE pipeline = %(pipeline)s
ORDER BY topic, created_at, partition, stream_id;

-- name: view_recent
-- For each pipeline: its newest batch, what its newest batches have read and rejected, and how many replays and re-drives
-- wait for an operator because no run for new records adopts them; how many of those have failed.
SELECT pipeline, newest.*, n_recent, n_read, n_rejected, n_waiting, n_failed_waiting
FROM tideline.pipeline
LEFT JOIN LATERAL (
    SELECT batch_id, kind::text, state::text, dag_id, run_id, planned_at FROM tideline.batch
    WHERE batch.pipeline = pipeline.pipeline ORDER BY batch_id DESC LIMIT 1
) AS newest ON true
CROSS JOIN LATERAL (
    SELECT count(DISTINCT batch_id) AS n_recent, coalesce(sum(r.n_read), 0)::bigint AS n_read, coalesce(sum(r.n_rejected), 0)::bigint AS n_rejected
    FROM (SELECT batch_id FROM tideline.batch WHERE batch.pipeline = pipeline.pipeline ORDER BY batch_id DESC LIMIT %(n_batches)s) AS lately
    JOIN tideline.batch_range r USING (batch_id)
) AS sums
CROSS JOIN LATERAL (
    SELECT count(*) AS n_waiting, count(*) FILTER (WHERE state = 'failed') AS n_failed_waiting FROM tideline.batch
    WHERE batch.pipeline = pipeline.pipeline AND state IN ('planned', 'failed') AND kind IN ('replay', 'redrive')
) AS waiting
ORDER BY pipeline;

-- name: view_cells
-- What accounts for stretches of streams, each cut into equally long cells. A cell says the worst that it holds, so that a
-- single lost offset among a million is seen. The shade of rejects, 1 to 3, is that of the worst batch of the cell: an hour of
-- nothing but rejects is seen in a year. One row for each stream, with the cells as arrays: a row for each takes five times as
-- long. The counts are those of offsets, not of cells.
-- Reads all coverage of these streams, once: the index of ranges takes ten times as long as the one of streams.
WITH stretch AS MATERIALIZED (
    SELECT stream_id, starts, ends, next_offset, ends - starts AS length, least(%(n_cells)s::bigint, ends - starts) AS n
    FROM unnest(%(stream_ids)s::bigint[], %(starts)s::bigint[], %(ends)s::bigint[]) AS given (stream_id, starts, ends)
    JOIN tideline.stream USING (stream_id) WHERE ends > starts
), owned AS MATERIALIZED (
    SELECT s.*, c.batch_id, c.hole::text AS what, lower(c.offsets) AS first, upper(c.offsets) AS last
    FROM stretch s JOIN tideline.coverage c USING (stream_id) WHERE upper(c.offsets) > s.starts AND lower(c.offsets) < s.ends
), piece AS (
    SELECT o.stream_id, starts, length, n, next_offset, coalesce(what, 'loaded') AS what, greatest(first, starts) AS lo, least(last, ends) AS hi,
           coalesce(r.n_rejected, 0)::float8 / (upper(r.offsets) - lower(r.offsets)) AS rejected,
           coalesce(r.n_gap, 0)::float8 / (upper(r.offsets) - lower(r.offsets)) AS empty
    FROM owned o
    LEFT JOIN LATERAL (SELECT * FROM tideline.batch_range w WHERE w.batch_id = o.batch_id AND w.stream_id = o.stream_id OFFSET 0) AS r ON true
    UNION ALL
    SELECT s.stream_id, starts, length, n, next_offset, 'open', greatest(lower(r.offsets), starts), least(upper(r.offsets), ends), 0, 0
    FROM stretch s JOIN tideline.batch_range r ON r.stream_id = s.stream_id AND r.reserves
    JOIN tideline.batch b ON b.batch_id = r.batch_id
    WHERE b.pipeline = %(pipeline)s AND b.state IN ('planned', 'writing', 'failed') AND upper(r.offsets) > starts AND lower(r.offsets) < ends
), part AS (
    SELECT stream_id, cell, what, rejected, empty, next_offset,
           greatest(lo, starts + (cell * length + n - 1) / n) AS lo, least(hi, starts + ((cell + 1) * length + n - 1) / n) AS hi
    FROM piece, LATERAL generate_series((lo - starts) * n / length, (hi - 1 - starts) * n / length) AS cell
), counted AS (
    SELECT stream_id, cell, sum(hi - lo)::bigint AS n_accounted, sum(greatest(0, least(hi, next_offset) - lo))::bigint AS n_below_head,
           max(rejected) AS worst_share, max(empty) AS empty,
           bool_or(what = 'lost') AS lost, bool_or(what = 'skipped') AS skipped, bool_or(what = 'rewound') AS rewound, bool_or(what = 'open') AS open
    FROM part GROUP BY stream_id, cell
), named AS (
    SELECT stream_id, cell, coalesce(worst_share, 0) AS worst_share,
           CASE WHEN coalesce(n_below_head, 0) < least(hi, next_offset) - lo THEN 'missing'
                WHEN lost THEN 'lost' WHEN skipped THEN 'skipped' WHEN rewound THEN 'rewound' WHEN open THEN 'open'
                WHEN coalesce(n_accounted, 0) < hi - lo THEN 'unread'
                WHEN worst_share > 0 THEN 'rejected' WHEN empty > 0 THEN 'empty' ELSE 'loaded' END AS what
    FROM (SELECT stream_id, cell, next_offset, starts + (cell * length + n - 1) / n AS lo, starts + ((cell + 1) * length + n - 1) / n AS hi
          FROM stretch, LATERAL generate_series(0, n - 1) AS cell) AS every LEFT JOIN counted USING (stream_id, cell)
), drawn AS (
    SELECT stream_id, array_agg(what ORDER BY cell) AS whats, array_agg(worst_share ORDER BY cell) AS worst_shares,
           array_agg(CASE WHEN what <> 'rejected' THEN 0 WHEN worst_share > 0.3 THEN 3 WHEN worst_share > 0.03 THEN 2 ELSE 1 END ORDER BY cell) AS shades
    FROM named GROUP BY stream_id
), total AS (
    SELECT stream_id, sum(hi - lo)::bigint AS n_accounted, sum(greatest(0, least(hi, next_offset) - lo))::bigint AS n_below_head,
           round(sum((hi - lo) * rejected))::bigint AS n_rejected, round(sum((hi - lo) * empty))::bigint AS n_empty,
           sum(hi - lo) FILTER (WHERE what = 'lost')::bigint AS n_lost, sum(hi - lo) FILTER (WHERE what = 'skipped')::bigint AS n_skipped,
           sum(hi - lo) FILTER (WHERE what = 'rewound')::bigint AS n_rewound, sum(hi - lo) FILTER (WHERE what = 'open')::bigint AS n_open
    FROM piece GROUP BY stream_id
)
SELECT stream_id, whats, shades, worst_shares, coalesce(n_rejected, 0) AS n_rejected, coalesce(n_empty, 0) AS n_empty, coalesce(n_lost, 0) AS n_lost,
       coalesce(n_skipped, 0) AS n_skipped, coalesce(n_rewound, 0) AS n_rewound, coalesce(n_open, 0) AS n_open, n_missing,
       length - coalesce(n_accounted, 0) - n_missing AS n_unread
FROM stretch JOIN drawn USING (stream_id) LEFT JOIN total USING (stream_id),
     LATERAL (SELECT greatest(0, least(ends, next_offset) - starts) - coalesce(n_below_head, 0) AS n_missing) AS below
ORDER BY stream_id;

-- name: view_stretch
-- What accounts for a stretch of one stream, piece by piece: batches with their counts, holes with their reasons, and open
-- batches.
SELECT lower(c.offsets) AS start_offset, upper(c.offsets) AS end_offset, c.batch_id, c.hole::text, c.reason, c.decided_by, c.recorded_at,
       b.kind::text, b.state::text, r.n_read, r.n_rejected, r.n_gap
FROM tideline.covering(%(stream_id)s, int8range(%(start)s, %(end)s)) c
LEFT JOIN tideline.batch b ON b.batch_id = c.batch_id
LEFT JOIN tideline.batch_range r ON r.batch_id = c.batch_id AND r.stream_id = c.stream_id
UNION ALL
SELECT lower(r.offsets), upper(r.offsets), r.batch_id, NULL, b.reason, NULL, b.planned_at, b.kind::text, b.state::text, NULL, NULL, NULL
FROM tideline.reserving(%(stream_id)s, int8range(%(start)s, %(end)s)) r JOIN tideline.batch b USING (batch_id)
WHERE b.state IN ('planned', 'writing', 'failed')
ORDER BY start_offset
LIMIT %(limit)s;

-- name: view_throughput
-- The newest published batches in the order of their publication: when each was published, how long its attempt took, its
-- counts, and for a live batch how many records the pipeline had still to read then.
--
-- That lag is the sum over all partitions that are followed now. A partition's lag changes when a live batch reads it, to
-- what the log held above the batch's range, without what was skipped or lost there; until the next one it is carried on.
-- Other kinds read old offsets, and change no lag. Nor does a batch that is published after a newer one of the partition.
WITH newest AS MATERIALIZED (
    SELECT b.batch_id, b.kind, a.started_at, a.ended_at
    FROM (SELECT batch_id, kind, attempt FROM tideline.batch WHERE pipeline = %(pipeline)s AND state IN ('published', 'advanced', 'superseded')
          ORDER BY batch_id DESC LIMIT %(limit)s) AS b
    JOIN tideline.attempt a ON a.attempt = b.attempt
), part AS MATERIALIZED (
    SELECT b.batch_id, b.kind, b.ended_at, r.stream_id, lower(r.offsets) AS starts, upper(r.offsets) AS ends, r.published_end, r.n_read, r.n_written, r.n_rejected
    FROM newest b CROSS JOIN LATERAL (SELECT * FROM tideline.batch_range r WHERE r.batch_id = b.batch_id OFFSET 0) AS r
), followed AS MATERIALIZED (
    SELECT s.stream_id, s.next_offset, (SELECT range_agg(c.offsets::int8range) FROM tideline.coverage c
                                        WHERE c.stream_id = s.stream_id AND c.hole IS NOT NULL AND c.hole <> 'rewound') AS given_up
    FROM tideline.stream s WHERE s.pipeline = %(pipeline)s AND s.state <> 'retired'
), live AS MATERIALIZED (
    SELECT p.*, max(batch_id) OVER (PARTITION BY stream_id ORDER BY ended_at, batch_id) AS newest_batch
    FROM part p WHERE kind = 'live'
), change AS (
    SELECT stream_id, batch_id, ended_at, ends, published_end FROM live WHERE batch_id = newest_batch
    UNION ALL
    -- What each partition had left before the first of these batches: the batch that has read up to it knows.
    SELECT f.stream_id, NULL, NULL, upper(r.offsets), r.published_end
    FROM followed f
    LEFT JOIN (SELECT DISTINCT ON (stream_id) stream_id, starts FROM live ORDER BY stream_id, ended_at, batch_id) AS first USING (stream_id)
    CROSS JOIN LATERAL tideline.reserving(f.stream_id, int8range(greatest(0, coalesce(starts, next_offset) - 1), coalesce(starts, next_offset))) AS r
    JOIN tideline.batch b ON b.batch_id = r.batch_id
    WHERE b.kind = 'live' AND r.published_end IS NOT NULL AND upper(r.offsets) = coalesce(starts, next_offset)
), lag AS (
    SELECT stream_id, batch_id, ended_at, published_end - ends
           - CASE WHEN given_up && int8range(ends, published_end)
                  THEN (SELECT sum(upper(gone) - lower(gone)) FROM unnest(given_up * int8multirange(int8range(ends, published_end))) AS gone)
                  ELSE 0 END AS n_left
    FROM change JOIN followed USING (stream_id)
), step AS (
    SELECT batch_id, ended_at, n_left - coalesce(lag(n_left) OVER (PARTITION BY stream_id ORDER BY ended_at NULLS FIRST, batch_id), 0) AS more FROM lag
), total AS (
    SELECT batch_id, sum(sum(more)) OVER (ORDER BY ended_at NULLS FIRST, batch_id)::bigint AS n_left FROM step GROUP BY batch_id, ended_at
)
SELECT b.batch_id, b.kind::text, b.ended_at, extract(epoch FROM b.ended_at - b.started_at)::float8 AS seconds, sums.*, total.n_left
FROM newest b
JOIN (SELECT batch_id, sum(n_read)::bigint AS n_read, sum(n_written)::bigint AS n_written, sum(n_rejected)::bigint AS n_rejected
      FROM part GROUP BY batch_id) AS sums USING (batch_id)
LEFT JOIN total USING (batch_id)
ORDER BY b.ended_at, b.batch_id;

-- name: view_run
-- The batches that a DAG run was given, in order. A run of the DAG `replay` may have batches of any pipeline.
SELECT batch_id, b.pipeline, b.kind::text, b.state::text, b.planned_at
FROM tideline.pipeline p
JOIN tideline.run_batch r ON r.pipeline = p.pipeline AND r.dag_id = %(dag_id)s AND r.run_id = %(run_id)s
JOIN tideline.batch b USING (batch_id)
ORDER BY r.position, batch_id;

-- name: view_decisions
-- The newest events of a pipeline that have a reason: what people have decided, and what followed in the same transaction.
SELECT at, actor, action, batch_id, topic, partition, event.from_state, event.to_state, detail
FROM tideline.event LEFT JOIN tideline.stream USING (stream_id)
WHERE event.pipeline = %(pipeline)s AND detail ? 'reason' AND action <> 'move head'  -- those in the index event_decided
ORDER BY event_id DESC LIMIT %(limit)s;

-- name: view_batches
-- The newest batches of a pipeline with their summed counts and the problem of their newest attempt. Filtered by state
-- or kind where these are given.
SELECT batch_id, kind::text, state::text, reason, dag_id, run_id, supersedes, planned_at, fence AS n_attempts,
       n_ranges, n_offsets, n_read, n_written, n_rejected, n_filtered, n_gap, n_bytes, problem
FROM tideline.batch
CROSS JOIN LATERAL (
    SELECT count(*) AS n_ranges, sum(upper(offsets) - lower(offsets))::bigint AS n_offsets, sum(n_read)::bigint AS n_read,
           sum(n_written)::bigint AS n_written, sum(n_rejected)::bigint AS n_rejected, sum(n_filtered)::bigint AS n_filtered,
           sum(n_gap)::bigint AS n_gap, sum(n_bytes)::bigint AS n_bytes
    FROM tideline.batch_range WHERE batch_range.batch_id = batch.batch_id
) AS sums
LEFT JOIN LATERAL (SELECT problem FROM tideline.attempt WHERE attempt.attempt = batch.attempt) AS newest ON true
WHERE pipeline = %(pipeline)s
  AND (%(state)s::tideline.batch_state IS NULL OR state = %(state)s)
  AND (%(kind)s::tideline.batch_kind IS NULL OR kind = %(kind)s)
ORDER BY batch_id DESC
LIMIT %(limit)s;

-- name: view_batch
-- One batch, without its ranges, and what it has folded into the state of its pipeline; no row if there is no such batch.
SELECT b.batch_id, b.identity, b.pipeline, b.kind::text, b.state::text, b.reason, b.dag_id, b.run_id, b.supersedes, b.planned_at,
       b.fence AS n_attempts, s.n_keys AS n_folded_keys, s.n_expired AS n_expired_rows, s.processor, s.undo
FROM tideline.batch b LEFT JOIN tideline.state_batch s USING (batch_id) WHERE b.batch_id = %(batch_id)s;

-- name: view_batch_ranges
-- The ranges of a batch with their counts, which are null until it is published, and with what the broker reported when
-- the batch was planned and after it was read.
SELECT topic, partition, lower(offsets) AS start_offset, upper(offsets) AS end_offset, gaps_allowed,
       n_read, n_written, n_rejected, n_filtered, n_gap, n_bytes, first_read, last_read,
       planned_log_start, planned_end, published_log_start, published_end
FROM tideline.batch_range JOIN tideline.stream USING (stream_id)
WHERE batch_id = %(batch_id)s
ORDER BY topic, partition, stream_id;

-- name: view_batch_owned
-- The offsets that a batch owns in the output now: fewer than it has written if a replay has replaced some.
SELECT topic, partition, lower(c.offsets) AS start_offset, upper(c.offsets) AS end_offset
FROM tideline.batch_range r JOIN tideline.stream USING (stream_id), LATERAL tideline.covering(r.stream_id, r.offsets) c
WHERE r.batch_id = %(batch_id)s AND c.batch_id = r.batch_id
ORDER BY topic, partition, r.stream_id, start_offset;

-- name: view_batch_attempts
-- The attempts of a batch: which task, on which host, and with which outcome.
SELECT fence, attempt, dag_id, run_id, task_id, try_number, host, pid, started_at, heartbeat_at, n_read, progressed_at, ended_at, outcome::text, problem
FROM tideline.attempt WHERE batch_id = %(batch_id)s
ORDER BY fence;

-- name: view_batch_schemas
-- The schemas that the records of a batch named, as the attempt that holds or has published it has found them.
SELECT part, registry, schema_id, kind, subjects
FROM tideline.attempt_schema JOIN tideline.registered_schema USING (pipeline, registry, schema_id) JOIN tideline.schema USING (schema_hash)
WHERE attempt_id = (
    SELECT coalesce(written_by, attempt_id) FROM tideline.batch JOIN tideline.attempt USING (attempt) WHERE batch.batch_id = %(batch_id)s)
ORDER BY part DESC, schema_id;

-- name: view_batch_fields
-- The fields of a batch's records that no column takes, as the attempt that holds or has published it has counted them; `n_records` have one,
-- and the record at `topic`, `partition` and `record_offset` is one of them.
SELECT part, name, n_records, topic, partition, record_offset
FROM tideline.attempt_field JOIN tideline.stream USING (stream_id)
WHERE attempt_id = (
    SELECT coalesce(written_by, attempt_id) FROM tideline.batch JOIN tideline.attempt USING (attempt) WHERE batch.batch_id = %(batch_id)s)
ORDER BY part DESC, n_records DESC, name;

-- name: view_used_schemas
-- The schemas of a registry that batches of a pipeline have used, for keys or for values.
SELECT part, schema_id, kind, text AS schema, reference_names, reference_texts, subjects
FROM tideline.registered_schema AS known JOIN tideline.schema USING (schema_hash)
JOIN unnest(ARRAY['value', 'key']) AS part ON EXISTS (
    SELECT FROM tideline.attempt_schema AS used
    WHERE (used.pipeline, used.registry, used.schema_id, used.part) = (known.pipeline, known.registry, known.schema_id, part))
WHERE pipeline = %(pipeline)s AND registry = %(registry)s
ORDER BY part DESC, schema_id;

-- name: view_batch_events
-- All events of a batch, in order.
SELECT at, actor, action, from_state, to_state, attempt, detail
FROM tideline.event WHERE batch_id = %(batch_id)s
ORDER BY event_id;

-- name: view_coverage
-- What accounts for the offsets of each stream, from its start to its head: how many offsets batches have loaded, and
-- how many are in holes. `missing` is what nothing accounts for; the laws of the ledger keep it empty. `before_start`
-- is what backfills have loaded before the start.
-- Reads all coverage of the pipeline once, and sorts none of it. Pieces tile a stretch if their lengths add up to its
-- length and each end except the last is also a beginning; sums of hashes check that. Missing offsets are computed only
-- for a stream that fails this check.
WITH accounted AS MATERIALIZED (
    SELECT stream_id,
           sum(ends - starts) FILTER (WHERE batch_id IS NOT NULL)::bigint AS n_loaded,
           sum(ends - starts) FILTER (WHERE hole = 'skipped')::bigint AS n_skipped,
           sum(ends - starts) FILTER (WHERE hole = 'lost')::bigint AS n_lost,
           sum(ends - starts) FILTER (WHERE hole = 'rewound')::bigint AS n_rewound,
           sum(ends - starts) FILTER (WHERE starts >= start_offset AND ends <= next_offset) AS n_between,
           sum(hashint8(ends) - hashint8(starts)::bigint) FILTER (WHERE starts >= start_offset AND ends <= next_offset) AS chain
    FROM (SELECT stream_id, start_offset, next_offset, batch_id, hole, lower(offsets) AS starts, upper(offsets) AS ends
          FROM tideline.coverage JOIN tideline.stream USING (stream_id) WHERE pipeline = %(pipeline)s OFFSET 0) AS piece
    GROUP BY stream_id
)
SELECT stream_id, topic, topic_id, partition, state::text, start_offset, next_offset,
       coalesce(n_loaded, 0) AS n_loaded, coalesce(n_skipped, 0) AS n_skipped, coalesce(n_lost, 0) AS n_lost, coalesce(n_rewound, 0) AS n_rewound,
       CASE WHEN coalesce(n_between, 0) = next_offset - start_offset
             AND coalesce(chain, 0) = hashint8(next_offset) - hashint8(start_offset)::bigint THEN '{}'
            ELSE (SELECT coalesce(array_agg(ARRAY[lower(piece), upper(piece)] ORDER BY piece), '{}')
                  FROM unnest(int8multirange(int8range(start_offset, next_offset)) - coalesce((
                      SELECT range_agg(offsets::int8range) FROM tideline.covering(stream_id, int8range(start_offset, next_offset))), '{}')) AS piece)
       END AS missing,
       (SELECT coalesce(array_agg(ARRAY[lower(piece), upper(piece)] ORDER BY piece), '{}')
        FROM unnest((SELECT range_agg(offsets::int8range * int8range(0, start_offset))
                     FROM tideline.covering(stream_id, int8range(0, start_offset)))) AS piece) AS before_start
FROM tideline.stream LEFT JOIN accounted USING (stream_id)
WHERE pipeline = %(pipeline)s
ORDER BY topic, created_at, partition, stream_id;

-- name: view_holes
-- The holes of a pipeline: offsets that are not in the output, each with its kind, the reason, and who decided it.
SELECT stream.stream_id, topic, partition, lower(c.offsets) AS start_offset, upper(c.offsets) AS end_offset, c.hole::text, c.reason, c.decided_by, c.recorded_at
FROM tideline.stream JOIN tideline.coverage c USING (stream_id)
WHERE pipeline = %(pipeline)s AND hole IS NOT NULL
ORDER BY topic, partition, stream.stream_id, start_offset;

-- name: view_reject_reasons
-- How many rejects of a pipeline have each step and reason, the most common first. Filtered by batch, or by a text in
-- the reason, where these are given. To count them it reads all rejects of the pipeline, or of the batch.
SELECT step, reason, count(*) AS n_records, min(rejected_at) AS first_at, max(rejected_at) AS last_at
FROM tideline.reject JOIN tideline.stream USING (stream_id)
WHERE pipeline = %(pipeline)s
  AND (%(batch_id)s::bigint IS NULL OR batch_id = %(batch_id)s)
  AND (%(reason_like)s::text IS NULL OR strpos(lower(reason), lower(%(reason_like)s)) > 0)
GROUP BY step, reason
ORDER BY n_records DESC, step, reason
LIMIT %(limit)s;

-- name: view_rejects
-- Rejects of a pipeline with the bytes that were kept, the newest batch first. Takes the same filters as
-- view_reject_reasons.
SELECT batch_id, topic, partition, kafka_offset, kafka_timestamp_ms, step, reason, key, value, headers, rejected_at
FROM tideline.reject JOIN tideline.stream USING (stream_id)
WHERE pipeline = %(pipeline)s
  AND (%(batch_id)s::bigint IS NULL OR batch_id = %(batch_id)s)
  AND (%(reason_like)s::text IS NULL OR strpos(lower(reason), lower(%(reason_like)s)) > 0)
ORDER BY batch_id DESC, topic, partition, kafka_offset
LIMIT %(limit)s;

-- name: view_state
-- How far each stream of a pipeline is folded, and what it keeps: the number of keys, their bytes, the next timer, and the batch that has
-- left a state alone for longest. Reads all states of the pipeline.
SELECT s.topic, s.partition, p.stream_id, s.state::text, p.next_offset, s.next_offset AS head, p.max_time,
       coalesce(k.n_keys, 0) AS n_keys, coalesce(k.n_bytes, 0) AS n_bytes, k.next_timer, k.oldest_batch
FROM tideline.state_position p JOIN tideline.stream s USING (stream_id)
LEFT JOIN (
    SELECT stream_id, count(*) AS n_keys, sum(octet_length(value::text))::bigint AS n_bytes, min(expires_at) AS next_timer, min(batch_id) AS oldest_batch
    FROM tideline.state WHERE pipeline = %(pipeline)s GROUP BY stream_id
) AS k USING (stream_id)
WHERE p.pipeline = %(pipeline)s
ORDER BY topic, partition, stream_id;

-- name: view_key
-- The state of a key after each batch that has changed it, newest first, as far back as undo is kept. `value` is null where nothing was kept. The
-- last row, without a batch, is how it was before. Looks the key up in each batch: these are `state.undo_batches` at most.
WITH changes AS MATERIALIZED (
    SELECT b.seq, b.batch_id, u.key, u.value, u.expires_at, u.stream_id, u.kafka_offset, u.existed
    FROM tideline.state_batch b JOIN tideline.state_undo u ON u.batch_id = b.batch_id AND u.key = ANY (%(state_keys)s)
    WHERE b.pipeline = %(pipeline)s AND b.undo = 'kept'
), versions AS (
    SELECT key, seq, batch_id, value, expires_at, stream_id, kafka_offset FROM (
        SELECT key, lag(seq) OVER w AS seq, lag(batch_id) OVER w AS batch_id, value, expires_at, stream_id, kafka_offset, existed FROM changes
        WINDOW w AS (PARTITION BY key ORDER BY seq)
    ) AS before WHERE seq IS NOT NULL OR existed
    UNION ALL
    SELECT coalesce(s.key, c.key), c.seq, coalesce(c.batch_id, s.batch_id), s.value, s.expires_at, s.stream_id, s.kafka_offset
    FROM (SELECT DISTINCT ON (key) key, seq, batch_id FROM changes ORDER BY key, seq DESC) AS c
    FULL JOIN (SELECT * FROM tideline.state WHERE pipeline = %(pipeline)s AND key = ANY (%(state_keys)s)) AS s USING (key)
)
SELECT v.key, v.batch_id, attempt.ended_at AS published_at, v.value, v.expires_at, stream.topic, stream.partition, v.kafka_offset
FROM versions v LEFT JOIN tideline.batch USING (batch_id) LEFT JOIN tideline.attempt ON attempt.attempt = batch.attempt
LEFT JOIN tideline.stream USING (stream_id)
ORDER BY v.key, v.seq DESC NULLS LAST, v.batch_id DESC NULLS LAST;

-- name: view_output_columns
-- The columns of an output table with their types, in order; none if it does not exist, or if this role may not see its schema.
SELECT attname AS name, format_type(atttypid, atttypmod) AS type
FROM pg_attribute WHERE attrelid = to_regclass(%(output)s) AND attnum > 0 AND NOT attisdropped
ORDER BY attnum;
