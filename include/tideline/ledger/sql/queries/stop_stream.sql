-- active -> stopped, with what was found. The stream stays stopped until an operator decides.
UPDATE tideline.stream SET state = 'stopped', stopped_because = %(because)s
WHERE stream_id = %(stream_id)s AND state = 'active';
