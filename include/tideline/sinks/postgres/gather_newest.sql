-- Create a table with the newest staged record of each key, beside what the output table and the table of deleted keys
-- have of this key, and whether one of these is newer. Streams of a topic that was created again have larger ids, so the
-- smallest stream id of a topic id says which of two is newer. The columns of the rows are numbered here: the output table
-- may have a column with any name, also with one of those that this statement gives.
CREATE UNLOGGED TABLE {newest} AS
WITH incarnations AS MATERIALIZED (SELECT topic_id, min(stream_id) AS number FROM tideline.stream GROUP BY topic_id),
newest AS (
    SELECT {one_for_each_key} {numbered_columns}, s.kafka_topic_id, s.kafka_partition, s.kafka_offset, s.tideline_batch, i.number AS incarnation
    FROM ({placed}) AS s JOIN incarnations i ON i.topic_id = s.kafka_topic_id
    ORDER BY {staged_key}, {newest_first} i.number DESC, s.kafka_offset DESC, s.kafka_partition DESC
)
SELECT n.*, t.kafka_topic_id AS there_topic_id, t.kafka_partition AS there_partition, t.kafka_offset AS there_offset, t.tideline_batch AS there_batch,
       m.kafka_topic_id AS mark_topic_id, m.kafka_partition AS mark_partition, m.kafka_offset AS mark_offset,
       coalesce(({there_order} coalesce(it.number, 0), t.kafka_offset, t.kafka_partition)
                >= ({newest_order} n.incarnation, n.kafka_offset, n.kafka_partition), false) AS loses_to_row,
       coalesce((coalesce(im.number, 0), m.kafka_offset, m.kafka_partition)
                > (n.incarnation, n.kafka_offset, n.kafka_partition), false) AS loses_to_mark
FROM newest n
LEFT JOIN {target} t ON ({there_key}) = ({newest_key})
LEFT JOIN incarnations it ON it.topic_id = t.kafka_topic_id
LEFT JOIN {marks} m ON ({mark_key}) = ({newest_key})
LEFT JOIN incarnations im ON im.topic_id = m.kafka_topic_id;
