-- The newest events of a pipeline that have a reason: what people have decided, and what followed in the same transaction.
SELECT at, actor, action, batch_id, topic, partition, event.from_state, event.to_state, detail
FROM tideline.event LEFT JOIN tideline.stream USING (stream_id)
WHERE event.pipeline = %(pipeline)s AND detail ? 'reason' AND action <> 'move head'  -- those in the index event_decided
ORDER BY event_id DESC LIMIT %(limit)s;
