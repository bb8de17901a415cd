-- The log of a stream has passed what was planned or read again: the next cut is a new one.
UPDATE tideline.stream SET accepted_end = NULL WHERE stream_id = %(stream_id)s AND accepted_end IS NOT NULL;
