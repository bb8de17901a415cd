-- name: set_actor
-- Set the actor that is stored in every event that this session causes.
SELECT set_config('tideline.actor', %(actor)s, false);

-- name: forbid_nested_loops
-- Disable nested loop joins until allow_nested_loops, or until the transaction ends. For joins of rows that were just
-- written, of which the planner has no statistics.
SET LOCAL enable_nestloop = off;

-- name: allow_nested_loops
-- Allow nested loop joins again.
SET LOCAL enable_nestloop = on;

-- name: begin_trial
-- Begin a part of the transaction that is undone in any case.
SAVEPOINT trial;

-- name: check_now
-- Check now what is otherwise checked at the end of the transaction.
SET CONSTRAINTS ALL IMMEDIATE;

-- name: undo_trial
-- Undo what the transaction has done since the trial began.
ROLLBACK TO SAVEPOINT trial;
