-- name: slice_rejects
-- Divide the remaining rejects of a re-drive into slices for the tasks that read them. A slice has offsets of one
-- stream, and a bounded number of records and bytes (the last record may exceed the bytes). Postgres knows the size of
-- a value without reading the value.
WITH found AS (
    SELECT reject.stream_id, reject.kafka_offset,
           coalesce(octet_length(key), 0) + coalesce(octet_length(value), 0) + coalesce(octet_length(headers), 0) AS n_bytes
    FROM tideline.redrive JOIN tideline.reject USING (stream_id, kafka_offset)
    WHERE redrive.batch_id = %(batch_id)s
), numbered AS (
    SELECT stream_id, kafka_offset, (row_number() OVER in_order - 1) / %(slice_records)s AS by_records,
           ((sum(n_bytes) OVER in_order)::bigint - n_bytes) / %(slice_bytes)s AS by_bytes
    FROM found WINDOW in_order AS (PARTITION BY stream_id ORDER BY kafka_offset)
)
SELECT stream_id, topic, partition, min(kafka_offset) AS start_offset, max(kafka_offset) + 1 AS end_offset
FROM numbered JOIN tideline.stream USING (stream_id)
GROUP BY stream_id, topic, partition, by_records, by_bytes
ORDER BY stream_id, start_offset;

-- name: read_rejects
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
