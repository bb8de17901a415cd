-- One range of a planned batch. Of live batches and backfills it reserves its offsets: an exclusion constraint refuses those that have an owner.
INSERT INTO tideline.batch_range (batch_id, stream_id, offsets, gaps_allowed, reserves, planned_log_start, planned_end)
SELECT batch_id, %(stream_id)s, int8range(%(start)s, %(end)s), %(gaps_allowed)s, kind IN ('live', 'backfill'), %(log_start)s, %(log_end)s
FROM tideline.batch WHERE batch_id = %(batch_id)s;
