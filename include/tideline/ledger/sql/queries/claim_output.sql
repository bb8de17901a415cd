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
