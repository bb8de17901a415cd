-- active | stopped -> retired: the topic or partition is gone, and its history stays.
UPDATE tideline.stream SET state = 'retired', stopped_because = NULL WHERE stream_id = %(stream_id)s AND state <> 'retired';
