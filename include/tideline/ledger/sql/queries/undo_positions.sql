-- Move the positions of a batch's streams back to where they were before it. Each change has a version of its own.
UPDATE tideline.state_position p
SET next_offset = u.next_offset, max_time = u.max_time, batch_id = u.of_batch, version = p.version + 1
FROM tideline.state_position_undo u
WHERE u.batch_id = %(batch_id)s AND p.stream_id = u.stream_id;
