-- Store what an attempt is about to commit outside, and all that is needed to publish it later.
INSERT INTO tideline.intent (attempt_id, batch_id, output, n_rows, written, redriven_streams, redriven_offsets, facts, filtered_by_difference, position)
VALUES (%(attempt_id)s, %(batch_id)s, %(output)s, %(n_rows)s, %(written)s, %(redriven_streams)s::bigint[], %(redriven_offsets)s::bigint[],
        %(facts)s, %(filtered_by_difference)s, %(position)s);
