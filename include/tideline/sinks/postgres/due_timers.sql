-- name: index_staged_states
-- Let staged states be found by their keys. However many timers have come, none of them then costs a scan of what was staged.
CREATE INDEX ON {staging} (key);
ANALYZE {staging};

-- name: count_due
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

-- name: index_due
-- Let the pages of staged states whose timers have come be found, in the order in which `select_due` reads them.
CREATE INDEX ON {staging} (stream_id, expires_at, key) WHERE phase = 1;

-- name: select_due
-- One page of the keys of a stream whose timers have come, of one part of the keys, in the order of timer and key: those after the last page.
-- Both halves stop after a page, by their indexes. A stored state is looked up among the staged ones for itself: to join them would read all that was
-- staged for each page.
SELECT key, value::text AS value, expires_at, kafka_offset
FROM (
    (SELECT s.key, s.value, s.expires_at, s.kafka_offset
     FROM tideline.state s
     WHERE %(keeps)s AND s.stream_id = %(stream_id)s AND s.expires_at <= %(at)s
       AND (s.expires_at, s.key) > (%(after_at)s::timestamptz, %(after_key)s)
       AND (hashtext(s.key) & 2147483647) %% %(n_parts)s = %(part)s
       AND (SELECT true FROM {staging} k WHERE k.key = s.key AND k.phase = 1 AND k.tideline_task = ANY (%(folding)s) LIMIT 1) IS NULL
     ORDER BY s.expires_at, s.key LIMIT %(at_once)s)
    UNION ALL
    (SELECT s.key, s.value, s.expires_at, s.kafka_offset
     FROM {staging} s
     WHERE s.stream_id = %(stream_id)s AND s.expires_at <= %(at)s AND (s.expires_at, s.key) > (%(after_at)s::timestamptz, %(after_key)s)
       AND (hashtext(s.key) & 2147483647) %% %(n_parts)s = %(part)s
       AND s.phase = 1 AND s.tideline_task = ANY (%(folding)s) AND s.value IS NOT NULL
     ORDER BY s.expires_at, s.key LIMIT %(at_once)s)
) AS due
ORDER BY expires_at, key
LIMIT %(at_once)s;
