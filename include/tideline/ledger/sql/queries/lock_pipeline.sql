-- Planners of one pipeline take turns here. The row is made at the first plan.
INSERT INTO tideline.pipeline (pipeline) VALUES (%(pipeline)s) ON CONFLICT DO NOTHING;
SELECT pipeline FROM tideline.pipeline WHERE pipeline = %(pipeline)s FOR UPDATE;
