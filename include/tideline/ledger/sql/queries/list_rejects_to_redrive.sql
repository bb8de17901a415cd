-- Rejects of a pipeline: of one batch, of reasons that contain a text, or all. Without those that an open re-drive has
-- taken. They are cut into parts of at most `size` rejects. No part holds two incarnations of a topic that was created
-- again. -> the range of offsets for each part and stream. Reads all rejects of the pipeline if no batch is given, but
-- returns none of them to the client: there may be millions.
WITH found AS (
    SELECT reject.stream_id, reject.kafka_offset,
           dense_rank() OVER (PARTITION BY stream.topic, stream.partition ORDER BY reject.stream_id) AS incarnation
    FROM tideline.reject JOIN tideline.stream USING (stream_id)
    WHERE stream.pipeline = %(pipeline)s
      AND (%(of_batch)s::bigint IS NULL OR reject.batch_id = %(of_batch)s)
      AND (%(reason_like)s::text IS NULL OR strpos(lower(reject.reason), lower(%(reason_like)s)) > 0)
      AND NOT EXISTS (SELECT FROM tideline.redrive d JOIN tideline.batch USING (batch_id)
                      WHERE d.stream_id = reject.stream_id AND d.kafka_offset = reject.kafka_offset AND state IN ('planned', 'writing', 'failed'))
), numbered AS (
    SELECT *, (row_number() OVER (PARTITION BY incarnation ORDER BY stream_id, kafka_offset) - 1) / %(size)s AS part FROM found
)
SELECT incarnation, part, stream_id, min(kafka_offset) AS start_offset, max(kafka_offset) + 1 AS end_offset
FROM numbered
GROUP BY incarnation, part, stream_id
ORDER BY incarnation, part, stream_id;
