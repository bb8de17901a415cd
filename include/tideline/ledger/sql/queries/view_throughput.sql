-- The newest published batches: when each was published, how long its attempt took, its counts, and how many records its
-- partitions still held after it.
SELECT b.batch_id, b.kind::text, a.ended_at, extract(epoch FROM a.ended_at - a.started_at)::float8 AS seconds, sums.*
FROM (SELECT batch_id, kind, attempt FROM tideline.batch WHERE pipeline = %(pipeline)s AND state IN ('published', 'advanced', 'superseded')
      ORDER BY batch_id DESC LIMIT %(limit)s) AS b
JOIN tideline.attempt a ON a.attempt = b.attempt
CROSS JOIN LATERAL (
    SELECT sum(r.n_read)::bigint AS n_read, sum(r.n_written)::bigint AS n_written, sum(r.n_rejected)::bigint AS n_rejected,
           sum(r.published_end - upper(r.offsets))::bigint AS n_left
    FROM tideline.batch_range r WHERE r.batch_id = b.batch_id
) AS sums
ORDER BY b.batch_id;
