-- List the places of the records that a pipeline has rejected.
SELECT partition, kafka_offset FROM tideline.reject JOIN tideline.stream USING (stream_id) WHERE stream.pipeline = %(pipeline)s;
