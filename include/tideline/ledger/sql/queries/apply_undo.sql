-- kept -> applied: the undo of a batch, after its states and positions were restored.
UPDATE tideline.state_batch SET undo = 'applied' WHERE batch_id = %(batch_id)s AND undo = 'kept';
