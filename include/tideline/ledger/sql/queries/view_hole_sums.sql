-- How many offsets of each pipeline are in holes, by kind.
SELECT pipeline, hole::text, sum(upper(c.offsets) - lower(c.offsets))::bigint AS n_offsets
FROM tideline.stream JOIN tideline.coverage c USING (stream_id)
WHERE hole IS NOT NULL
GROUP BY pipeline, hole
ORDER BY pipeline, hole;
