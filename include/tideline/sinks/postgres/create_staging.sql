-- Create the staging table of an attempt: the target's columns that the transform fills, with their NOT NULLs and
-- checks. A row that the target would refuse is refused here, where only its record becomes a reject. `tideline_task`
-- distinguishes the rows of winning tasks from those of losing ones.
CREATE UNLOGGED TABLE {staging} (LIKE {target} INCLUDING CONSTRAINTS);
ALTER TABLE {staging} {drop_others}, ADD COLUMN tideline_stream bigint NOT NULL, ADD COLUMN tideline_task bigint NOT NULL;
