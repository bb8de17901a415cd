-- stopped -> active, by an operator's decision. Until the log has passed what was planned or read, it may end at
-- accepted_end.
UPDATE tideline.stream SET state = 'active', stopped_because = NULL, accepted_end = %(accepted_end)s,
    leader_epoch = coalesce(%(leader_epoch)s, leader_epoch)
WHERE stream_id = %(stream_id)s AND state = 'stopped';
