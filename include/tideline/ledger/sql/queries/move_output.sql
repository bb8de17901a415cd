-- Move a pipeline's claim for its rows to another place. -> the place that it had, which may be this one; nothing where it has
-- no claim. Others must not have claimed the place, unless all share it, no batch may be written, and the transaction
-- needs a reason. The time is that of the move, not of its transaction: it may have waited for batches to be published.
WITH had AS (
    SELECT pipeline, purpose, kind, place FROM tideline.claimed_output WHERE pipeline = %(pipeline)s AND purpose = 'rows' FOR UPDATE
), moved AS (
    UPDATE tideline.claimed_output mine
    SET kind = %(kind)s, place = %(place)s, shared = %(shared)s, claimed_at = clock_timestamp()
    FROM had WHERE mine.pipeline = had.pipeline AND mine.purpose = had.purpose AND (had.kind, had.place) <> (%(kind)s, %(place)s)
)
SELECT kind, place FROM had;
