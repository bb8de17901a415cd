-- name: count_fields
-- Add what a task has counted of fields that no column takes, unless it has done so before.
SELECT tideline.count_fields(
    %(attempt)s::uuid, %(task)s, %(parts)s::text[], %(names)s::text[], %(counts)s::bigint[], %(stream_ids)s::bigint[], %(record_offsets)s::bigint[]);
