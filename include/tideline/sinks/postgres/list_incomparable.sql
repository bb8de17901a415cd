-- Find a key whose newest staged record cannot be compared with what is there: that is from another partition or another
-- topic. Streams of the same topic that was created again compare: the later one is newer. Unless a topic was given up and
-- then followed again: what was read of it since may be older or newer than what was read in between.
WITH topics AS MATERIALIZED (
    SELECT cluster_id, topic, topic_id, min(stream_id) AS number, min(returned_offset) AS returned_offset, max(returned_behind) AS returned_behind
    FROM tideline.stream GROUP BY cluster_id, topic, topic_id
),
found AS (
    SELECT kafka_topic_id, kafka_partition, kafka_offset, there_topic_id AS other_topic_id, there_partition AS other_partition,
           there_offset AS other_offset
    FROM {newest} WHERE there_topic_id <> kafka_topic_id OR there_partition <> kafka_partition
    UNION ALL
    SELECT kafka_topic_id, kafka_partition, kafka_offset, mark_topic_id, mark_partition, mark_offset
    FROM {newest} WHERE mark_topic_id <> kafka_topic_id OR mark_partition <> kafka_partition
),
compared AS (
    SELECT f.*, a.topic, b.topic AS other_topic, a.cluster_id <> b.cluster_id OR a.topic <> b.topic OR a.topic_id = b.topic_id AS is_other,
           coalesce(f.kafka_offset >= a.returned_offset, false) AS is_later, coalesce(f.other_offset >= b.returned_offset, false) AS other_is_later,
           a.number, b.number AS other_number, a.returned_behind, b.returned_behind AS other_returned_behind
    FROM found f JOIN topics a ON a.topic_id = f.kafka_topic_id JOIN topics b ON b.topic_id = f.other_topic_id
)
SELECT topic, kafka_partition AS partition, other_topic, other_partition,
       CASE WHEN NOT is_other THEN CASE WHEN is_later THEN kafka_topic_id ELSE other_topic_id END END AS returned_topic_id
FROM compared
WHERE is_other
   OR is_later AND other_number <= returned_behind AND (other_number > number OR other_is_later)
   OR other_is_later AND number <= other_returned_behind AND (number > other_number OR is_later)
LIMIT 1;
