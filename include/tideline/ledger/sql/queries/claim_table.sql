-- Give a pipeline the table that it declares, in place of the table that it had. If another pipeline has the table, and
-- not both declare it shared, nothing changes and the other pipelines are returned. Of two concurrent claims the second
-- one waits for the first, and the constraint refuses it.
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
