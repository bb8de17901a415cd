-- The stopped streams of a pipeline, which wait for an operator's decision.
SELECT stream_id, topic, partition, next_offset, stopped_because FROM tideline.stream
WHERE pipeline = %(pipeline)s AND state = 'stopped' ORDER BY topic, partition;
