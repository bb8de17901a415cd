-- Insert a hole: offsets that an operator, or a declared policy, decided not to load.
INSERT INTO tideline.coverage (stream_id, offsets, hole, reason, decided_by)
VALUES (%(stream_id)s, int8range(%(start)s, %(end)s), %(hole)s, %(reason)s, coalesce(%(decided_by)s, current_setting('tideline.actor')));
