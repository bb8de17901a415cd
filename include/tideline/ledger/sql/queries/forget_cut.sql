-- Forget the accepted end of a truncated log. The log has again passed what was planned or read, so the next truncation
-- is a new one.
UPDATE tideline.stream SET accepted_end = NULL WHERE stream_id = %(stream_id)s AND accepted_end IS NOT NULL;
