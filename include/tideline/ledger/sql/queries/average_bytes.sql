-- Average bytes of keys and values per record, over the latest 100 ranges that the pipeline has published. Null before
-- its first batch.
SELECT (sum(n_bytes) / nullif(sum(n_read), 0))::bigint AS average FROM (
    SELECT n_bytes, n_read FROM tideline.batch JOIN tideline.batch_range USING (batch_id)
    WHERE pipeline = %(pipeline)s AND n_bytes IS NOT NULL ORDER BY batch_id DESC LIMIT 100) AS lately;
