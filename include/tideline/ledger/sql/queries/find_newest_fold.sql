-- The number of the newest batch that was folded into the state of a pipeline, also if it was rewound since; 0 before the first one.
SELECT coalesce(max(seq), 0) AS seq FROM tideline.state_batch WHERE pipeline = %(pipeline)s;
