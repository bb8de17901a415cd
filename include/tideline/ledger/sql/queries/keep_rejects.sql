-- Keep the rejects that were re-driven and rejected again, with their new step and reason. Each now names this attempt
-- as the one that rejected it, so from now on it is a different reject.
UPDATE tideline.reject SET step = s.step, reason = s.reason, attempt_id = s.attempt_id, rejected_at = now()
FROM tideline.staged_reject s
JOIN (SELECT r.stream_id, one.kafka_offset, one.rejected_by
      FROM tideline.staged_redrive r CROSS JOIN LATERAL unnest(r.offsets, r.rejected_by) AS one (kafka_offset, rejected_by)
      WHERE r.attempt_id = %(attempt_id)s) AS taken USING (stream_id, kafka_offset)
WHERE s.attempt_id = %(attempt_id)s
  AND reject.stream_id = s.stream_id AND reject.kafka_offset = s.kafka_offset AND reject.attempt_id = taken.rejected_by;
