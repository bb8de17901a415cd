-- A pipeline gives its table up; which one that was. It must have no open batches.
DELETE FROM tideline.output_table WHERE pipeline = %(pipeline)s RETURNING table_name;
