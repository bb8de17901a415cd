-- The number of a batch among those that are folded into the state of a pipeline, unless it was rewound.
SELECT seq FROM tideline.state_batch WHERE batch_id = %(batch_id)s AND pipeline = %(pipeline)s AND undo <> 'applied';
