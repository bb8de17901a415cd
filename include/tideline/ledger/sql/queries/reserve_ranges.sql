-- Insert the ranges of planned batches. Ranges of live batches and backfills reserve their offsets: an exclusion
-- constraint refuses offsets that already have an owner. Ranges of
-- replays and re-drives of outside sinks have their offsets alone while they are open.
INSERT INTO tideline.batch_range (batch_id, stream_id, offsets, gaps_allowed, reserves, alone, planned_log_start, planned_end)
SELECT batch_id, r.stream_id, int8range(r.start_offset, r.end_offset), r.gaps_allowed, batch.kind IN ('live', 'backfill'),
       batch.outside AND batch.kind IN ('replay', 'redrive'), r.log_start, r.log_end
FROM unnest(%(batch_ids)s::bigint[], %(stream_ids)s::bigint[], %(starts)s::bigint[], %(ends)s::bigint[], %(gaps_allowed)s::boolean[],
            %(log_starts)s::bigint[], %(log_ends)s::bigint[])
    AS r (batch_id, stream_id, start_offset, end_offset, gaps_allowed, log_start, log_end)
JOIN tideline.batch USING (batch_id)
ORDER BY batch_id, r.stream_id;
