-- Count the impressions that a pipeline has written and rejected, over all published batches.
SELECT coalesce(sum(n_written), 0)::bigint AS n_written, coalesce(sum(n_rejected), 0)::bigint AS n_rejected
FROM tideline.batch_range JOIN tideline.batch USING (batch_id)
WHERE batch.pipeline = %(pipeline)s AND batch.state IN ('published', 'advanced');
