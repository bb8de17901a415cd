-- All events of a batch, in order.
SELECT at, actor, action, from_state, to_state, attempt, detail
FROM tideline.event WHERE batch_id = %(batch_id)s
ORDER BY event_id;
