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
