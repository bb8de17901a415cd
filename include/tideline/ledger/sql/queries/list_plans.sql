-- When the offsets of an open batch were planned: for itself, and for batches over them that were abandoned or rewound, the parts that it has too.
SELECT own.stream_id, lower(own.offsets) AS start_offset, upper(own.offsets) AS end_offset, planned_at
FROM tideline.batch_range own JOIN tideline.batch USING (batch_id)
WHERE batch_id = %(batch_id)s
UNION ALL
SELECT own.stream_id, greatest(lower(own.offsets), lower(theirs.offsets)), least(upper(own.offsets), upper(theirs.offsets)), b.planned_at
FROM tideline.batch_range own CROSS JOIN LATERAL tideline.replaying(own.stream_id, own.offsets) theirs
JOIN tideline.batch b ON b.batch_id = theirs.batch_id
WHERE own.batch_id = %(batch_id)s
ORDER BY stream_id, start_offset, end_offset, planned_at;
