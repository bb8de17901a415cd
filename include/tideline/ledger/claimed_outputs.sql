-- name: claim_output
-- Give a pipeline the output that it declares. -> why it does not get it; nothing where it does, or has it already: the
-- claims of others (`other`) unless all of them share it, and its own claim of another place (`moves`), which only a
-- decision moves once the pipeline has loaded something, or may have. Of two concurrent claims the second one waits for the first, and the
-- constraint refuses it.
WITH others AS (
    SELECT 'other' AS found, pipeline, purpose, kind, place, shared FROM tideline.claimed_output
    WHERE tideline.names(kind || ' ' || place, kind || ' ' || place, '[]')
          && tideline.names(%(kind)s || ' ' || %(place)s, %(kind)s || ' ' || %(place)s, '[]')
      AND pipeline <> %(pipeline)s AND NOT (shared AND %(shared)s)
), moves AS (
    SELECT 'moves' AS found, pipeline, purpose, kind, place, shared FROM tideline.claimed_output
    WHERE pipeline = %(pipeline)s AND purpose = %(purpose)s AND purpose = 'rows' AND (kind, place) <> (%(kind)s, %(place)s)
      AND tideline.has_loaded(%(pipeline)s)
), claimed AS (
    INSERT INTO tideline.claimed_output AS mine (pipeline, purpose, kind, place, shared)
    SELECT %(pipeline)s, %(purpose)s, %(kind)s, %(place)s, %(shared)s
    WHERE NOT EXISTS (SELECT FROM others) AND NOT EXISTS (SELECT FROM moves)
    ON CONFLICT (pipeline, purpose) DO UPDATE
    SET kind = EXCLUDED.kind, place = EXCLUDED.place, shared = EXCLUDED.shared,
        -- Since when it has this place, shared or not.
        claimed_at = CASE WHEN (mine.kind, mine.place) = (EXCLUDED.kind, EXCLUDED.place) THEN mine.claimed_at ELSE now() END
    WHERE (mine.kind, mine.place, mine.shared) IS DISTINCT FROM (EXCLUDED.kind, EXCLUDED.place, EXCLUDED.shared)
)
SELECT * FROM others UNION ALL SELECT * FROM moves ORDER BY found, pipeline, purpose;

-- name: free_rejects
-- Delete a pipeline's claim of a topic of rejects, unless it is of this place: the one that it declares, null if it declares none.
DELETE FROM tideline.claimed_output WHERE pipeline = %(pipeline)s AND purpose = 'rejects' AND place IS DISTINCT FROM %(place)s;

-- name: move_output
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

-- name: view_output_writers
-- The pipelines that have claimed an output.
SELECT pipeline, purpose, shared FROM tideline.claimed_output
WHERE tideline.names(kind || ' ' || place, kind || ' ' || place, '[]')
      && tideline.names(%(kind)s || ' ' || %(place)s, %(kind)s || ' ' || %(place)s, '[]')
ORDER BY pipeline, purpose;

-- name: view_claims
-- The outputs that a pipeline has claimed, and whether that of its rows moves only by a decision.
SELECT purpose, kind, place, shared, tideline.has_loaded(pipeline) AS has_loaded FROM tideline.claimed_output WHERE pipeline = %(pipeline)s ORDER BY purpose;

-- name: free_outputs
-- Delete a pipeline's claims. -> kind and place of each. The pipeline must have no open batches.
WITH freed AS (DELETE FROM tideline.claimed_output WHERE pipeline = %(pipeline)s RETURNING purpose, kind, place)
SELECT * FROM freed ORDER BY purpose;
