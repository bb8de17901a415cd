-- Find a key whose newest staged record cannot be compared with what is there: that is from another partition or another
-- topic. Streams of the same topic that was created again compare: the later one is newer.
WITH topics AS MATERIALIZED (SELECT DISTINCT cluster_id, topic, topic_id FROM tideline.stream),
found AS (
    SELECT kafka_topic_id, kafka_partition, there_topic_id AS other_topic_id, there_partition AS other_partition
    FROM {newest} WHERE there_topic_id <> kafka_topic_id OR there_partition <> kafka_partition
    UNION ALL
    SELECT kafka_topic_id, kafka_partition, mark_topic_id, mark_partition
    FROM {newest} WHERE mark_topic_id <> kafka_topic_id OR mark_partition <> kafka_partition
)
SELECT a.topic, f.kafka_partition AS partition, b.topic AS other_topic, f.other_partition
FROM found f JOIN topics a ON a.topic_id = f.kafka_topic_id JOIN topics b ON b.topic_id = f.other_topic_id
WHERE a.topic_id = b.topic_id OR a.cluster_id <> b.cluster_id OR a.topic <> b.topic
LIMIT 1;
