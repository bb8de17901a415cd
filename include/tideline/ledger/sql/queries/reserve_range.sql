-- Reserve one range for a planned batch; an exclusion constraint refuses offsets that have an owner.
INSERT INTO tideline.batch_range (batch_id, stream_id, offsets, gaps_allowed, planned_log_start, planned_end)
VALUES (%(batch_id)s, %(stream_id)s, int8range(%(start)s, %(end)s), %(gaps_allowed)s, %(log_start)s, %(log_end)s);
