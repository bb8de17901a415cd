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
