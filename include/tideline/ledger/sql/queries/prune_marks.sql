-- Delete the marks of tombstones that no older record can come before any more: Kafka has deleted what was before them,
-- and neither an open batch nor a reject holds an older record, of this topic or of an earlier incarnation of it. Of a topic
-- that was given up and followed again, each other incarnation counts as earlier. The start of a log only rises, so what
-- the batch before the head has recorded of it is still true.
WITH open_range AS MATERIALIZED (
    SELECT r.stream_id, min(lower(r.offsets)) AS first_offset
    FROM tideline.batch b JOIN tideline.batch_range r USING (batch_id)
    WHERE b.state IN ('planned', 'writing', 'failed') GROUP BY r.stream_id
), stream AS MATERIALIZED (
    SELECT s.cluster_id, s.topic, s.topic_id, s.partition, s.returned_offset, min(s.stream_id) OVER (PARTITION BY s.topic_id) AS incarnation,
           least(CASE WHEN s.state <> 'retired' THEN coalesce(
                     (SELECT max(greatest(r.planned_log_start, r.published_log_start))
                      FROM tideline.reserving(s.stream_id, int8range(s.next_offset - 1, s.next_offset)) r), 0) END,
                 o.first_offset,
                 (SELECT min(j.kafka_offset) FROM tideline.reject j WHERE j.stream_id = s.stream_id)) AS first_to_come
    FROM tideline.stream s LEFT JOIN open_range o USING (stream_id)
)
DELETE FROM {marks} m
WHERE EXISTS (SELECT FROM stream s WHERE s.topic_id = m.kafka_topic_id)
  AND NOT EXISTS (
    SELECT FROM stream s JOIN stream o ON (o.cluster_id, o.topic) = (s.cluster_id, s.topic)
    WHERE s.topic_id = m.kafka_topic_id
      AND ((o.incarnation < s.incarnation OR s.returned_offset IS NOT NULL AND o.incarnation <> s.incarnation) AND o.first_to_come IS NOT NULL
           OR o.topic_id = s.topic_id AND o.partition = m.kafka_partition AND o.first_to_come < m.kafka_offset));
