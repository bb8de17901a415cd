-- Delete the rows that a replay replaces: those that its pipeline has inserted for the ranges of the batch. Rows
-- outside of the ranges stay, and so do all rows of other pipelines that write to this table. The batches are found
-- first, by an index: a lookup for each row would cost more than the delete.
WITH ranges AS MATERIALIZED (
    SELECT stream_id, topic_id, partition, offsets, lower(offsets) AS start_offset, upper(offsets) AS end_offset
    FROM tideline.batch_range JOIN tideline.stream USING (stream_id)
    WHERE batch_id = %(batch_id)s
), ours AS MATERIALIZED (
    SELECT o.batch_id FROM ranges r, tideline.reserving(r.stream_id, r.offsets) o
    UNION
    SELECT o.batch_id FROM ranges r, tideline.replaying(r.stream_id, r.offsets) o
)
DELETE FROM {target} t USING ranges r
WHERE t.kafka_topic_id = r.topic_id AND t.kafka_partition = r.partition AND t.kafka_offset >= r.start_offset AND t.kafka_offset < r.end_offset
  AND t.tideline_batch IN (SELECT batch_id FROM ours);
