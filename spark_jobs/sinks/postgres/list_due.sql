-- The keys whose timers the watermarks of their streams have reached: stored states that the batch has not changed, and
-- states that its winning tasks have staged. A stream that begins anew has no stored states. `last` is the largest of the
-- watermarks: it tells the planner that few of the stored timers have come, and so to use their index. There is no
-- semicolon, because other statements contain this one.
WITH reached AS MATERIALIZED (
    SELECT stream_id, topic, partition, at, keeps
    FROM unnest(%(topics)s::text[], %(partitions)s::integer[], %(reached)s::timestamptz[], %(keeps)s::boolean[]) AS w (topic, partition, at, keeps)
    JOIN tideline.stream USING (topic, partition)
    WHERE pipeline = %(pipeline)s
)
SELECT s.key, s.stream_id, topic, partition, s.value, s.expires_at, s.kafka_offset
FROM tideline.state s JOIN reached r ON r.stream_id = s.stream_id AND s.expires_at <= r.at AND s.expires_at <= %(last)s
WHERE keeps AND NOT EXISTS (SELECT FROM {staging} k WHERE k.key = s.key AND k.phase = 1 AND k.tideline_task = ANY (%(folding)s))
UNION ALL
SELECT s.key, s.stream_id, topic, partition, s.value, s.expires_at, s.kafka_offset
FROM {staging} s JOIN reached r ON r.stream_id = s.stream_id AND s.expires_at <= r.at
WHERE s.phase = 1 AND s.tideline_task = ANY (%(folding)s) AND s.value IS NOT NULL
