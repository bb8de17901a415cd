-- name: record_event
-- Insert an event, in addition to those that triggers insert.
INSERT INTO tideline.event (action, pipeline, batch_id, stream_id, attempt, detail)
VALUES (%(action)s, %(pipeline)s, %(batch_id)s, %(stream_id)s, %(attempt)s, %(detail)s);
