-- The published batches that an attempt has committed to an outside sink last, with rows, and where the output ended before that. In the
-- order of their commits, which is not that of their numbers: a batch that has failed is written behind younger ones.
SELECT b.batch_id, i.n_rows, i.position, extract(epoch FROM clock_timestamp() - i.at)::float8 AS age_seconds
FROM tideline.batch b JOIN tideline.intent i ON i.attempt_id = b.written_by
WHERE b.pipeline = %(pipeline)s AND b.state IN ('published', 'advanced') AND i.output = %(output)s AND i.position IS NOT NULL AND i.n_rows > 0
ORDER BY i.at DESC, i.attempt_id DESC LIMIT %(most)s;
