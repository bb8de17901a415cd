-- Which offsets of a topic are in the output now, and which were rejected.
SELECT kafka_partition, kafka_offset, true AS is_output
FROM ads.impressions JOIN tideline.stream ON topic_id = kafka_topic_id AND partition = kafka_partition
WHERE topic = %(topic)s
UNION ALL
SELECT partition, kafka_offset, false
FROM tideline.reject JOIN tideline.stream USING (stream_id)
WHERE topic = %(topic)s;
