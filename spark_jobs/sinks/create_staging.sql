-- One attempt's staging table: the target's columns that the transform fills, with their NOT NULLs and checks, so that a row that the target
-- would refuse is refused here, where it costs only itself. `tideline_task` tells the winners of Spark's tasks from the losers.
CREATE UNLOGGED TABLE {staging} (LIKE {target} INCLUDING CONSTRAINTS);
ALTER TABLE {staging} {drop_others}, ADD COLUMN tideline_stream bigint NOT NULL, ADD COLUMN tideline_task bigint NOT NULL;
