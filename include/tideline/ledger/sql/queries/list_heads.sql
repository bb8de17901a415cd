-- The heads of the streams that a pipeline follows now.
SELECT topic, partition, next_offset FROM tideline.stream WHERE pipeline = %(pipeline)s AND state <> 'retired' ORDER BY stream_id;
