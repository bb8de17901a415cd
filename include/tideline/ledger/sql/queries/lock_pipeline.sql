-- Planners of one pipeline take turns here. The row is made at the first plan. NO KEY: rows that refer to the pipeline, as every event
-- does, can be written meanwhile; a plan and a publish never wait for each other. -> the moment at which the turn was given.
INSERT INTO tideline.pipeline (pipeline) VALUES (%(pipeline)s) ON CONFLICT DO NOTHING;
SELECT FROM tideline.pipeline WHERE pipeline = %(pipeline)s FOR NO KEY UPDATE;
SELECT clock_timestamp() AS now;
