-- Read one slice of a re-drive's rejects, with their original bytes. Rejects that were deleted meanwhile are left out.
-- The same statement stores which rejects were found, so that publishing knows all rejects that were read. A second
-- read of the slice must find the same rejects.
WITH found AS MATERIALIZED (
    SELECT kafka_offset, reject.attempt_id AS rejected_by, kafka_timestamp_ms, key, value, headers
    FROM tideline.redrive JOIN tideline.reject USING (stream_id, kafka_offset)
    WHERE redrive.batch_id = %(batch_id)s AND stream_id = %(stream_id)s AND kafka_offset >= %(start)s AND kafka_offset < %(end)s
), put_down AS (
    INSERT INTO tideline.staged_redrive (attempt_id, stream_id, start_offset, offsets, rejected_by)
    SELECT tideline.staging_id(%(attempt)s::uuid), %(stream_id)s, %(start)s,
           coalesce(array_agg(kafka_offset ORDER BY kafka_offset), ARRAY[]::bigint[]), coalesce(array_agg(rejected_by ORDER BY kafka_offset), ARRAY[]::bigint[])
    FROM found
    ON CONFLICT (attempt_id, stream_id, start_offset) DO UPDATE SET offsets = excluded.offsets, rejected_by = excluded.rejected_by
)
SELECT kafka_offset, kafka_timestamp_ms, key, value, headers FROM found ORDER BY kafka_offset;
