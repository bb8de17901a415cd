-- Streams that wait for a person.
SELECT stream_id, topic, partition, next_offset, stopped_because FROM tideline.stream
WHERE pipeline = %(pipeline)s AND state = 'stopped' ORDER BY topic, partition;
