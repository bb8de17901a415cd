-- name: list_rejected
-- The records that an attempt has rejected.
SELECT stream_id, kafka_offset FROM tideline.staged_reject WHERE attempt_id = %(attempt_id)s;
