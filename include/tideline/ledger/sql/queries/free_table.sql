-- Delete a pipeline's claim on its table. -> the table's name. The pipeline must have no open batches.
DELETE FROM tideline.output_table WHERE pipeline = %(pipeline)s RETURNING table_name;
