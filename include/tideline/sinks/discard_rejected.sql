-- Delete the staged rows of rejected records: if any row of a record was rejected, the whole record is a reject. Only
-- rows of the winning tasks are deleted, since only these count.
DELETE FROM {staging} s USING tideline.staged_reject r
WHERE r.attempt_id = %(attempt_id)s AND r.stream_id = s.tideline_stream AND r.kafka_offset = s.kafka_offset
  AND s.tideline_task = ANY (%(tasks)s);
