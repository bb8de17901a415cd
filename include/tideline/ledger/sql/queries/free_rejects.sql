-- Delete a pipeline's claim of a topic of rejects, unless it is of this place: the one that it declares, null if it declares none.
DELETE FROM tideline.claimed_output WHERE pipeline = %(pipeline)s AND purpose = 'rejects' AND place IS DISTINCT FROM %(place)s;
