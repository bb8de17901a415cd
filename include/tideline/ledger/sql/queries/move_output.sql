-- Move a pipeline's claim for its rows to another place. -> the place that it had; nothing where it has no claim, or has
-- this one. Others must not have claimed the place, unless all share it, no batch may be written, and the transaction
-- needs a reason.
WITH had AS (
    SELECT pipeline, purpose, kind, place FROM tideline.claimed_output
    WHERE pipeline = %(pipeline)s AND purpose = 'rows' AND (kind, place) <> (%(kind)s, %(place)s) FOR UPDATE
)
UPDATE tideline.claimed_output mine SET kind = %(kind)s, place = %(place)s, shared = %(shared)s, claimed_at = now()
FROM had WHERE mine.pipeline = had.pipeline AND mine.purpose = had.purpose
RETURNING had.kind, had.place;
