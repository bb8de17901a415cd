-- name: count_converted
-- Count the conversions of each offer before an hour.
SELECT offer_id, count(*)::int AS n FROM ads.conversions WHERE converted_at < %(hour)s GROUP BY offer_id;

-- name: count_events
-- Count the impressions that a pipeline has written and rejected, over all published batches.
SELECT coalesce(sum(n_written), 0)::bigint AS n_written, coalesce(sum(n_rejected), 0)::bigint AS n_rejected
FROM tideline.batch_range JOIN tideline.batch USING (batch_id)
WHERE batch.pipeline = %(pipeline)s AND batch.state IN ('published', 'advanced');

-- name: count_output
-- Count all rows of the target table.
SELECT count(*) AS n_rows FROM ads.impressions;

-- name: count_shown
-- Count the impressions of each offer before an hour.
SELECT offer_id, count(*)::int AS n FROM ads.impressions WHERE shown_at < %(hour)s GROUP BY offer_id ORDER BY offer_id;

-- name: find_baseline
-- The newest version of the baseline.
SELECT version, count(*)::int AS n_offers FROM ads.baseline_current GROUP BY version;

-- name: find_progress
-- How far a stateful pipeline is: the offsets that are loaded, those that its policy has skipped, the newest event time, and the newest batch.
SELECT coalesce(sum(upper(offsets) - lower(offsets)) FILTER (WHERE hole IS NULL), 0)::bigint AS n_loaded,
       coalesce(sum(upper(offsets) - lower(offsets)) FILTER (WHERE hole = 'skipped' AND decided_by = 'policy latest_wins'), 0)::bigint AS n_skipped,
       (SELECT max(max_time) FROM tideline.state_position WHERE pipeline = %(pipeline)s) AS max_time,
       (SELECT coalesce(max(batch_id), 0) FROM tideline.batch WHERE pipeline = %(pipeline)s) AS newest_batch
FROM tideline.coverage JOIN tideline.stream USING (stream_id)
WHERE stream.pipeline = %(pipeline)s;

-- name: hide_offers
-- Rename the dimension table, so that the next run of the demo fails. A demo that was killed meanwhile has left one behind.
DROP TABLE IF EXISTS ads.offers_away;
ALTER TABLE ads.offers RENAME TO offers_away;

-- name: list_anomalies
-- List what the batches after one have flagged.
SELECT offer_id, flag, seen, impressions, expected, score, model_version FROM ads.offer_anomalies
WHERE tideline_batch > %(after)s ORDER BY offer_id;

-- name: list_batches_of_run
-- List the batches that a DAG run loaded.
SELECT batch_id FROM tideline.run_batch WHERE pipeline = %(pipeline)s AND run_id = %(run_id)s ORDER BY batch_id;

-- name: list_counts
-- List the offset ranges that a DAG run loaded, by partition, with their counts.
SELECT partition, min(lower(offsets)) AS start_offset, max(upper(offsets)) AS end_offset, sum(n_read)::bigint AS n_read,
       sum(n_written)::bigint AS n_written, sum(n_rejected)::bigint AS n_rejected, sum(n_filtered)::bigint AS n_filtered
FROM tideline.run_batch JOIN tideline.batch_range USING (batch_id) JOIN tideline.stream USING (stream_id)
WHERE run_batch.pipeline = %(pipeline)s AND dag_id = %(pipeline)s AND run_id = %(run_id)s
GROUP BY partition ORDER BY partition;

-- name: list_failed
-- List the failed batches of a DAG run, with the first line of the problem of their last attempt.
SELECT batch.batch_id, batch.state::text, split_part(attempt.problem, E'\n', 1) AS problem,
       (SELECT sum(upper(offsets) - lower(offsets)) FROM tideline.batch_range WHERE batch_range.batch_id = batch.batch_id)::bigint AS n_offsets
FROM tideline.run_batch JOIN tideline.batch USING (batch_id) JOIN tideline.attempt ON attempt.attempt = batch.attempt
WHERE run_batch.pipeline = %(pipeline)s AND run_batch.run_id = %(run_id)s AND batch.state = 'failed'
ORDER BY batch.batch_id;

-- name: list_loaded
-- List the offsets of a pipeline's topics that are in the target table now, and those that were rejected.
SELECT kafka_partition, kafka_offset, true AS is_output
FROM ads.impressions JOIN tideline.stream ON topic_id = kafka_topic_id AND partition = kafka_partition
WHERE pipeline = %(pipeline)s
UNION ALL
SELECT partition, kafka_offset, false
FROM tideline.reject JOIN tideline.stream USING (stream_id)
WHERE stream.pipeline = %(pipeline)s;

-- name: list_loaded_advertisers
-- List the advertisers that are loaded.
SELECT advertiser_id, name, country, budget, active, signed_on, changed_at FROM ads.advertisers ORDER BY advertiser_id;

-- name: list_offer_cache
-- List the offers as they are now, each with the place of its newest change.
SELECT offer_id, advertiser, category, bid_micros, changed_at, kafka_partition, kafka_offset FROM ads.offer_cache ORDER BY offer_id;

-- name: list_output
-- The impressions in the table, to compare them with those in the Delta table.
SELECT kafka_partition, kafka_offset, impression_id, price FROM ads.impressions;

-- name: list_rejected
-- List the places of the records that a pipeline has rejected.
SELECT partition, kafka_offset FROM tideline.reject JOIN tideline.stream USING (stream_id) WHERE stream.pipeline = %(pipeline)s;

-- name: list_replayed
-- List the batches of one run of the backfill: replays, and offsets that it loaded for the first time.
SELECT batch.batch_id, batch.kind::text, sum(upper(offsets) - lower(offsets))::bigint AS n_offsets,
       sum(n_written)::bigint AS n_written, sum(n_rejected)::bigint AS n_rejected
FROM tideline.run_batch JOIN tideline.batch USING (batch_id) JOIN tideline.batch_range USING (batch_id)
WHERE run_batch.pipeline = %(pipeline)s AND run_batch.run_id = %(run_id)s AND batch.kind <> 'live' AND batch.state = 'advanced'
GROUP BY batch.batch_id, batch.kind
ORDER BY batch.batch_id;

-- name: list_visits
-- List the visits that have ended, and those that are open.
SELECT true AS has_ended, user_id, first_at, last_at, impressions, clicks, revenue FROM ads.sessions
UNION ALL
SELECT false, key::jsonb ->> 0, (value ->> 'first_at')::timestamptz, (value ->> 'last_at')::timestamptz,
       (value ->> 'impressions')::bigint, (value ->> 'clicks')::bigint, (value ->> 'revenue')::numeric
FROM tideline.state WHERE pipeline = %(pipeline)s;

-- name: show_offers
-- Give the dimension table its name back.
ALTER TABLE ads.offers_away RENAME TO offers;
