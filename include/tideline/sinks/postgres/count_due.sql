-- How many keys of each stream have timers that its watermark has reached: of stored states that the batch has not changed, and of states that its
-- winning tasks have staged. A stream that begins anew has no stored states. `last` is the largest of the watermarks: it tells the planner that few of
-- the stored timers have come, and so to use their index.
WITH reached AS MATERIALIZED (
    SELECT stream_id, topic, partition, at, keeps
    FROM unnest(%(topics)s::text[], %(partitions)s::integer[], %(reached)s::timestamptz[], %(keeps)s::boolean[]) AS w (topic, partition, at, keeps)
    JOIN tideline.stream USING (topic, partition)
    WHERE pipeline = %(pipeline)s
)
SELECT stream_id, topic, partition, at, keeps, count(*) AS n_keys
FROM (
    SELECT s.stream_id
    FROM tideline.state s JOIN reached r ON r.stream_id = s.stream_id AND s.expires_at <= r.at AND s.expires_at <= %(last)s
    WHERE keeps AND NOT EXISTS (SELECT FROM {staging} k WHERE k.key = s.key AND k.phase = 1 AND k.tideline_task = ANY (%(folding)s))
    UNION ALL
    SELECT s.stream_id
    FROM {staging} s JOIN reached r ON r.stream_id = s.stream_id AND s.expires_at <= r.at
    WHERE s.phase = 1 AND s.tideline_task = ANY (%(folding)s) AND s.value IS NOT NULL
) AS due JOIN reached USING (stream_id)
GROUP BY stream_id, topic, partition, at, keeps
ORDER BY stream_id;
