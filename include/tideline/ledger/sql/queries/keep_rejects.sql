-- Rejects that were re-driven and rejected again stay, with what is wrong with them now.
UPDATE tideline.reject SET step = s.step, reason = s.reason, rejected_at = now()
FROM tideline.staged_reject s
WHERE s.attempt_id = %(attempt_id)s AND reject.stream_id = s.stream_id AND reject.kafka_offset = s.kafka_offset;
