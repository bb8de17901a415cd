-- name: try_target
-- Run the text of a target.sql in a transaction that will be rolled back. Inside of a block no statement of it can end
-- the transaction.
SELECT set_config('tideline.target_sql', %(text)s, true);
DO $$ BEGIN EXECUTE current_setting('tideline.target_sql'); END $$;
