-- Staged rows of a re-drive that belong to no reject that it has taken: one of them tells that there are any.
SELECT s.tideline_stream, s.kafka_offset FROM {staging} s
WHERE s.tideline_task = ANY (%(tasks)s) AND NOT EXISTS (
    SELECT FROM tideline.redrive d
    WHERE d.batch_id = %(batch_id)s AND d.stream_id = s.tideline_stream AND d.kafka_offset = s.kafka_offset)
LIMIT 1;
