-- A record of which any row was rejected is wholly a reject: its other rows leave staging. Only the winners' rows count.
DELETE FROM {staging} s USING tideline.staged_reject r
WHERE r.attempt_id = %(attempt_id)s AND r.stream_id = s.tideline_stream AND r.kafka_offset = s.kafka_offset
  AND s.tideline_task = ANY (%(tasks)s);
