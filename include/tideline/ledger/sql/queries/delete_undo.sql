-- Delete the undo of batches, which was pruned or applied.
DELETE FROM tideline.state_position_undo WHERE batch_id = ANY (%(batch_ids)s);
DELETE FROM tideline.state_undo WHERE batch_id = ANY (%(batch_ids)s);
