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
