-- name: lock_pipeline
-- Plans, decisions and advances of one pipeline take turns on this row. The first plan creates it. NO KEY: rows that refer to the pipeline,
-- as every event does, can be written meanwhile, so a plan and a publish never wait for each other. -> the time at
-- which the lock was granted.
INSERT INTO tideline.pipeline (pipeline) VALUES (%(pipeline)s) ON CONFLICT DO NOTHING;
SELECT FROM tideline.pipeline WHERE pipeline = %(pipeline)s FOR NO KEY UPDATE;
-- Brokers are asked while the lock is held: the session is idle meanwhile, and has a deadline of its own.
SELECT set_config('idle_in_transaction_session_timeout', %(idle_ms)s::text, true);
SELECT clock_timestamp() AS now;

-- name: find_pipeline
-- Whether the ledger has this pipeline (a row), and whether an earlier transaction has planned for it.
SELECT created_at < now() AS planned_before FROM tideline.pipeline WHERE pipeline = %(pipeline)s;

-- name: list_run_batches
-- The batches that a DAG run works on, in order; none before its first plan. Without abandoned batches: no run works on
-- those.
SELECT batch_id FROM tideline.run_batch JOIN tideline.batch USING (batch_id)
WHERE run_batch.pipeline = %(pipeline)s AND run_batch.dag_id = %(dag_id)s AND run_batch.run_id = %(run_id)s AND batch.state <> 'abandoned'
ORDER BY position;

-- name: list_given_batches
-- All batches that a DAG run was ever given, including those that were abandoned since.
SELECT batch_id FROM tideline.run_batch
WHERE pipeline = %(pipeline)s AND dag_id = %(dag_id)s AND run_id = %(run_id)s ORDER BY batch_id;

-- name: list_unfinished
-- Those of the given batches that are not finished: neither advanced, nor superseded, nor abandoned.
SELECT batch_id FROM tideline.batch WHERE batch_id = ANY (%(batch_ids)s) AND state NOT IN ('advanced', 'superseded', 'abandoned');

-- name: list_open_batches
-- Batches that are not published yet, of all runs: live ones first, each kind oldest first. `for_heads` marks those
-- without which a head cannot move on: live ones, and backfills of offsets that the head has not passed. The others
-- matter only to the run that requested them.
SELECT batch_id, kind::text, state::text, dag_id, run_id, kind = 'live' OR kind = 'backfill' AND EXISTS (
    SELECT FROM tideline.batch_range JOIN tideline.stream USING (stream_id)
    WHERE batch_range.batch_id = batch.batch_id AND upper(offsets) > next_offset AND stream.state <> 'retired') AS for_heads
FROM tideline.batch
WHERE pipeline = %(pipeline)s AND state IN ('planned', 'writing', 'failed')
ORDER BY batch.kind, batch_id;

-- name: average_bytes
-- Average bytes of keys and values per record, over the latest 100 ranges that the pipeline has published. Null before
-- its first batch.
SELECT (sum(n_bytes) / nullif(sum(n_read), 0))::bigint AS average FROM (
    SELECT n_bytes, n_read FROM tideline.batch JOIN tideline.batch_range USING (batch_id)
    WHERE pipeline = %(pipeline)s AND n_bytes IS NOT NULL ORDER BY batch_id DESC LIMIT 100) AS lately;

-- name: list_streams
-- The streams of a pipeline and what is taken at or above each head: ranges that batches have reserved, and holes. The
-- caller holds the pipeline's lock, so no other process changes these streams meanwhile.
SELECT stream_id, cluster_id, topic, topic_id, partition, start_offset, next_offset, accepted_end, leader_epoch, state::text, stopped_because,
       coalesce((SELECT array_agg(ARRAY[lower(offsets), upper(offsets)] ORDER BY offsets)
                 FROM (SELECT offsets FROM tideline.reserving(stream.stream_id, int8range(next_offset, NULL))
                       UNION ALL
                       SELECT offsets FROM tideline.covering(stream.stream_id, int8range(next_offset, NULL)) WHERE hole IS NOT NULL) AS taken), '{}') AS reserved
FROM tideline.stream
WHERE pipeline = %(pipeline)s
ORDER BY stream_id;

-- name: start_stream
-- Insert a stream for a partition that is seen for the first time. Its head is at its start.
INSERT INTO tideline.stream (pipeline, cluster_id, topic, topic_id, partition, start_offset, next_offset, leader_epoch)
VALUES (%(pipeline)s, %(cluster_id)s, %(topic)s, %(topic_id)s, %(partition)s, %(start_offset)s, %(start_offset)s, %(leader_epoch)s)
RETURNING stream_id;

-- name: keep_leader_epochs
-- Store the leader epoch under which each log was seen to hold all that was planned of it. Later checks compare with
-- it.
UPDATE tideline.stream SET leader_epoch = seen.leader_epoch
FROM unnest(%(stream_ids)s::bigint[], %(leader_epochs)s::int[]) AS seen (stream_id, leader_epoch)
WHERE stream.stream_id = seen.stream_id;

-- name: stop_stream
-- active -> stopped, with what was found. The stream stays stopped until an operator decides.
UPDATE tideline.stream SET state = 'stopped', stopped_because = %(because)s
WHERE stream_id = %(stream_id)s AND state = 'active';

-- name: plan_batches
-- Insert as many planned batches as requested. -> their ids, ascending.
INSERT INTO tideline.batch (pipeline, kind, dag_id, run_id, seq, supersedes, reason, outside, stateful)
SELECT %(pipeline)s, %(kind)s, %(dag_id)s, %(run_id)s, given.n + new.n, %(supersedes)s, %(reason)s, %(outside)s,
       %(stateful)s
FROM (SELECT count(*) AS n FROM tideline.batch WHERE pipeline = %(pipeline)s AND dag_id = %(dag_id)s AND run_id = %(run_id)s) AS given,
     generate_series(0, %(n_batches)s - 1) AS new (n)
ORDER BY new.n
RETURNING batch_id;

-- name: reserve_ranges
-- Insert the ranges of planned batches. Ranges of live batches and backfills reserve their offsets: an exclusion
-- constraint refuses offsets that already have an owner. Ranges of
-- replays and re-drives of outside sinks have their offsets alone while they are open.
INSERT INTO tideline.batch_range (batch_id, stream_id, offsets, gaps_allowed, reserves, alone, planned_log_start, planned_end)
SELECT batch_id, r.stream_id, int8range(r.start_offset, r.end_offset), r.gaps_allowed, batch.kind IN ('live', 'backfill'),
       batch.outside AND batch.kind IN ('replay', 'redrive'), r.log_start, r.log_end
FROM unnest(%(batch_ids)s::bigint[], %(stream_ids)s::bigint[], %(starts)s::bigint[], %(ends)s::bigint[], %(gaps_allowed)s::boolean[],
            %(log_starts)s::bigint[], %(log_ends)s::bigint[])
    AS r (batch_id, stream_id, start_offset, end_offset, gaps_allowed, log_start, log_end)
JOIN tideline.batch USING (batch_id)
ORDER BY batch_id, r.stream_id;

-- name: join_run
-- Add batches to those that a DAG run works on, in order, after those that it already has. Batches that it already has
-- keep their positions.
INSERT INTO tideline.run_batch (pipeline, dag_id, run_id, position, batch_id)
SELECT %(pipeline)s, %(dag_id)s, %(run_id)s, given.n + row_number() OVER (ORDER BY new.place) - 1, new.batch_id
FROM (SELECT count(*) AS n FROM tideline.run_batch WHERE pipeline = %(pipeline)s AND dag_id = %(dag_id)s AND run_id = %(run_id)s) AS given,
     (SELECT batch_id, min(place) AS place FROM unnest(%(batch_ids)s::bigint[]) WITH ORDINALITY AS b (batch_id, place) GROUP BY batch_id) AS new
WHERE NOT EXISTS (
    SELECT FROM tideline.run_batch old
    WHERE old.pipeline = %(pipeline)s AND old.dag_id = %(dag_id)s AND old.run_id = %(run_id)s AND old.batch_id = new.batch_id);

-- name: plan_redrive
-- Assign rejects to re-drives: those within their ranges that match the request and that no other open re-drive has
-- taken. -> how many.
INSERT INTO tideline.redrive (batch_id, stream_id, kafka_offset)
SELECT r.batch_id, reject.stream_id, reject.kafka_offset
FROM tideline.batch_range r JOIN tideline.reject ON reject.stream_id = r.stream_id AND kafka_offset >= lower(offsets) AND kafka_offset < upper(offsets)
WHERE r.batch_id = ANY (%(batch_ids)s)
  AND (%(of_batch)s::bigint IS NULL OR reject.batch_id = %(of_batch)s)
  AND (%(reason_like)s::text IS NULL OR strpos(lower(reject.reason), lower(%(reason_like)s)) > 0)
  AND NOT EXISTS (SELECT FROM tideline.redrive d JOIN tideline.batch USING (batch_id)
                  WHERE d.stream_id = reject.stream_id AND d.kafka_offset = reject.kafka_offset AND state IN ('planned', 'writing', 'failed'))
ORDER BY r.batch_id, reject.stream_id, reject.kafka_offset;
