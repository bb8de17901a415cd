-- List the offsets of a pipeline's topics that are in the target table now, and those that were rejected.
SELECT kafka_partition, kafka_offset, true AS is_output
FROM ads.impressions JOIN tideline.stream ON topic_id = kafka_topic_id AND partition = kafka_partition
WHERE pipeline = %(pipeline)s
UNION ALL
SELECT partition, kafka_offset, false
FROM tideline.reject JOIN tideline.stream USING (stream_id)
WHERE stream.pipeline = %(pipeline)s;
