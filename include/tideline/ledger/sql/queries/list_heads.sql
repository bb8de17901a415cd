-- The heads of a pipeline's streams, without retired streams.
SELECT topic, partition, next_offset FROM tideline.stream WHERE pipeline = %(pipeline)s AND state <> 'retired' ORDER BY stream_id;
