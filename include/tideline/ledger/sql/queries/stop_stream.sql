-- active -> stopped, with what was found. It stays stopped until a person decides.
UPDATE tideline.stream SET state = 'stopped', stopped_because = %(because)s
WHERE stream_id = %(stream_id)s AND state = 'active';
