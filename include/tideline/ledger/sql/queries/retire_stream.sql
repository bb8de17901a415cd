-- active | stopped -> retired: the topic or partition is deleted. Its history stays.
UPDATE tideline.stream SET state = 'retired', stopped_because = NULL WHERE stream_id = %(stream_id)s AND state <> 'retired';
