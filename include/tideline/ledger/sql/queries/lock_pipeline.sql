-- Plans, decisions and advances of one pipeline take turns on this row. The first plan creates it. NO KEY: rows that refer to the pipeline,
-- as every event does, can be written meanwhile, so a plan and a publish never wait for each other. -> the time at
-- which the lock was granted.
INSERT INTO tideline.pipeline (pipeline) VALUES (%(pipeline)s) ON CONFLICT DO NOTHING;
SELECT FROM tideline.pipeline WHERE pipeline = %(pipeline)s FOR NO KEY UPDATE;
-- Brokers are asked while the lock is held: the session is idle meanwhile, and has a deadline of its own.
SELECT set_config('idle_in_transaction_session_timeout', %(idle_ms)s::text, true);
SELECT clock_timestamp() AS now;
