-- What accounts for stretches of streams, each cut into equally long cells. A cell says the worst that it holds, so that a
-- single lost offset among a million is seen; equal neighbours are joined. Reads all coverage of these streams, once: the
-- index of ranges takes ten times as long as the one of streams.
WITH stretch AS MATERIALIZED (
    SELECT stream_id, starts, ends, next_offset, ends - starts AS length, least(%(n_cells)s::bigint, ends - starts) AS n
    FROM unnest(%(stream_ids)s::bigint[], %(starts)s::bigint[], %(ends)s::bigint[]) AS given (stream_id, starts, ends)
    JOIN tideline.stream USING (stream_id) WHERE ends > starts
), owned AS MATERIALIZED (
    SELECT s.*, c.batch_id, c.hole::text AS what, lower(c.offsets) AS first, upper(c.offsets) AS last
    FROM stretch s JOIN tideline.coverage c USING (stream_id) WHERE upper(c.offsets) > s.starts AND lower(c.offsets) < s.ends
), piece AS (
    SELECT o.stream_id, starts, length, n, coalesce(what, 'loaded') AS what, greatest(first, starts) AS lo, least(last, ends) AS hi,
           coalesce(r.n_rejected, 0)::float8 / (upper(r.offsets) - lower(r.offsets)) AS rejected,
           coalesce(r.n_gap, 0)::float8 / (upper(r.offsets) - lower(r.offsets)) AS empty
    FROM owned o
    LEFT JOIN LATERAL (SELECT * FROM tideline.batch_range w WHERE w.batch_id = o.batch_id AND w.stream_id = o.stream_id OFFSET 0) AS r ON true
    UNION ALL
    SELECT s.stream_id, starts, length, n, 'open', greatest(lower(r.offsets), starts), least(upper(r.offsets), ends), 0, 0
    FROM stretch s JOIN tideline.batch_range r ON r.stream_id = s.stream_id AND r.reserves
    JOIN tideline.batch b ON b.batch_id = r.batch_id
    WHERE b.pipeline = %(pipeline)s AND b.state IN ('planned', 'writing', 'failed') AND upper(r.offsets) > starts AND lower(r.offsets) < ends
), part AS (
    SELECT stream_id, cell, what, rejected, empty,
           least(hi, starts + ((cell + 1) * length + n - 1) / n) - greatest(lo, starts + (cell * length + n - 1) / n) AS size
    FROM piece, LATERAL generate_series((lo - starts) * n / length, (hi - 1 - starts) * n / length) AS cell
), counted AS (
    SELECT stream_id, cell, sum(size)::bigint AS n_accounted, bool_or(what = 'open') AS open,
           sum(size * rejected) AS n_rejected, sum(size * empty) AS n_empty,
           bool_or(what = 'lost') AS lost, bool_or(what = 'skipped') AS skipped, bool_or(what = 'rewound') AS rewound
    FROM part GROUP BY stream_id, cell
), named AS (
    SELECT stream_id, cell, lo, hi, n_rejected, n_empty,
           CASE WHEN coalesce(n_accounted, 0) < least(hi, greatest(lo, next_offset)) - lo THEN 'missing'
                WHEN lost THEN 'lost' WHEN skipped THEN 'skipped' WHEN rewound THEN 'rewound' WHEN open THEN 'open'
                WHEN coalesce(n_accounted, 0) < hi - lo THEN 'unread'
                WHEN n_rejected > 0 THEN 'rejected' WHEN n_empty > 0 THEN 'empty' ELSE 'loaded' END AS what
    FROM (SELECT stream_id, cell, next_offset, starts + (cell * length + n - 1) / n AS lo, starts + ((cell + 1) * length + n - 1) / n AS hi
          FROM stretch, LATERAL generate_series(0, n - 1) AS cell) AS every LEFT JOIN counted USING (stream_id, cell)
)
SELECT stream_id, what, min(lo) AS start_offset, max(hi) AS end_offset, coalesce(sum(n_rejected), 0)::float8 AS n_rejected, coalesce(sum(n_empty), 0)::float8 AS n_empty
FROM (SELECT *, cell - row_number() OVER (PARTITION BY stream_id, what ORDER BY cell) AS island FROM named) AS islands
GROUP BY stream_id, what, island
ORDER BY stream_id, start_offset;
