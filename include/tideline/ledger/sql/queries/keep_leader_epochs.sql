-- Store the leader epoch under which each log was seen to hold all that was planned of it. Later checks compare with
-- it.
UPDATE tideline.stream SET leader_epoch = seen.leader_epoch
FROM unnest(%(stream_ids)s::bigint[], %(leader_epochs)s::int[]) AS seen (stream_id, leader_epoch)
WHERE stream.stream_id = seen.stream_id;
