-- The pipelines that have claimed a table.
SELECT pipeline, shared, claimed_at FROM tideline.output_table
WHERE tideline.names(table_name, table_name, '[]') && tideline.names(%(table)s, %(table)s, '[]')
ORDER BY pipeline;
