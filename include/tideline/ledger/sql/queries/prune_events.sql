-- Delete a pipeline's events that are older than declared, except those of open or published batches. -> how many. The
-- first statement sets the time up to which the trigger on events allows deletion.
SELECT set_config('tideline.prune_before', (now() - make_interval(days => %(days)s))::text, true);
WITH pruned AS (
    DELETE FROM tideline.event
    WHERE pipeline = %(pipeline)s AND at < now() - make_interval(days => %(days)s)
      AND NOT EXISTS (SELECT FROM tideline.batch
                      WHERE batch.batch_id = event.batch_id AND state IN ('planned', 'writing', 'failed', 'published'))
    RETURNING 1
)
SELECT count(*) AS n_events FROM pruned;
