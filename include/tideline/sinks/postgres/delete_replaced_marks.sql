-- Delete the tombstones that a replay takes back, among those of its ranges: where the pipeline deletes no rows any more,
-- all of them; else those that were rejected this time. The others stay: Kafka may have removed their records, and without
-- them an older record would bring a deleted row back.
WITH ranges AS MATERIALIZED (
    SELECT stream_id, topic_id, partition, offsets, lower(offsets) AS start_offset, upper(offsets) AS end_offset
    FROM tideline.batch_range JOIN tideline.stream USING (stream_id)
    WHERE batch_id = %(batch_id)s
), ours AS MATERIALIZED (
    SELECT o.batch_id FROM ranges r, tideline.reserving(r.stream_id, r.offsets) o
    UNION
    SELECT o.batch_id FROM ranges r, tideline.replaying(r.stream_id, r.offsets) o
)
DELETE FROM {marks} m USING ranges r
WHERE m.kafka_topic_id = r.topic_id AND m.kafka_partition = r.partition AND m.kafka_offset >= r.start_offset AND m.kafka_offset < r.end_offset
  AND m.tideline_batch IN (SELECT batch_id FROM ours)
  AND (NOT %(deletes)s
       OR EXISTS (SELECT FROM tideline.staged_reject j
                  WHERE j.attempt_id = %(attempt_id)s AND j.stream_id = r.stream_id AND j.kafka_offset = m.kafka_offset));
