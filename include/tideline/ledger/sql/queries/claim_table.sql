-- A pipeline takes the table that it declares, in place of the one that it had, unless others have it who do not share it, or share it with those
-- who do: they are returned. Of two that come at once the second one waits for the first, and the constraint refuses it.
WITH others AS (
    SELECT pipeline, shared FROM tideline.output_table
    WHERE tideline.names(table_name, table_name, '[]') && tideline.names(%(table)s, %(table)s, '[]')
      AND pipeline <> %(pipeline)s AND NOT (shared AND %(shared)s)
), claimed AS (
    INSERT INTO tideline.output_table AS mine (pipeline, table_name, shared)
    SELECT %(pipeline)s, %(table)s, %(shared)s WHERE NOT EXISTS (SELECT FROM others)
    ON CONFLICT (pipeline) DO UPDATE SET table_name = EXCLUDED.table_name, shared = EXCLUDED.shared, claimed_at = now()
    WHERE (mine.table_name, mine.shared) IS DISTINCT FROM (EXCLUDED.table_name, EXCLUDED.shared)
)
SELECT pipeline, shared FROM others ORDER BY pipeline;
