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
