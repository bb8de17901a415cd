-- Find a row of the target that this batch would overwrite or lose against, but that no record of the ledger explains: its
-- topic id is unknown, or it has the coordinates of a record of the batch. Another writer has inserted it.
SELECT n.there_partition AS kafka_partition, n.there_offset AS kafka_offset, n.there_batch AS tideline_batch, other.pipeline
FROM {newest} n LEFT JOIN tideline.batch other ON other.batch_id = n.there_batch
WHERE n.there_topic_id IS NOT NULL
  AND (NOT EXISTS (SELECT FROM tideline.stream WHERE topic_id = n.there_topic_id)
       OR (n.there_topic_id, n.there_partition, n.there_offset) = (n.kafka_topic_id, n.kafka_partition, n.kafka_offset))
LIMIT 1;
