-- The first statement of a read-only transaction: all later statements use one snapshot, and none can change anything
-- by mistake.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY;
