-- How many rejects of a pipeline have each step and reason, the most common first. Filtered by batch, or by a text in
-- the reason, where these are given. To count them it reads all rejects of the pipeline, or of the batch.
SELECT step, reason, count(*) AS n_records, min(rejected_at) AS first_at, max(rejected_at) AS last_at
FROM tideline.reject JOIN tideline.stream USING (stream_id)
WHERE pipeline = %(pipeline)s
  AND (%(batch_id)s::bigint IS NULL OR batch_id = %(batch_id)s)
  AND (%(reason_like)s::text IS NULL OR strpos(lower(reason), lower(%(reason_like)s)) > 0)
GROUP BY step, reason
ORDER BY n_records DESC, step, reason
LIMIT %(limit)s;
