-- The rejects that a re-drive takes and that are still there, locked until it has published. The statement after the
-- lock compares the remaining rejects one by one with those that the attempt has read. -> n_read: how many it has read;
-- n_gone: how many of these are deleted or are other rejects now; n_unread: how many are there that it has not read;
-- n_undecoded: of how many streams not all rejects that were read were decoded.
SELECT FROM tideline.reject JOIN tideline.redrive USING (stream_id, kafka_offset)
WHERE redrive.batch_id = %(batch_id)s ORDER BY stream_id, kafka_offset FOR UPDATE OF reject;
WITH taken AS MATERIALIZED (
    SELECT stream_id, one.kafka_offset, one.rejected_by
    FROM tideline.staged_redrive s CROSS JOIN LATERAL unnest(s.offsets, s.rejected_by) AS one (kafka_offset, rejected_by)
    WHERE s.attempt_id = %(attempt_id)s
), left_over AS MATERIALIZED (
    SELECT stream_id, kafka_offset, reject.attempt_id AS rejected_by
    FROM tideline.reject JOIN tideline.redrive USING (stream_id, kafka_offset) WHERE redrive.batch_id = %(batch_id)s
)
SELECT (SELECT count(*) FROM taken) AS n_read,
       (SELECT count(*) FROM (TABLE taken EXCEPT TABLE left_over) AS gone) AS n_gone,
       (SELECT count(*) FROM (TABLE left_over EXCEPT TABLE taken) AS unread) AS n_unread,
       (SELECT count(*) FROM (SELECT stream_id, count(*) AS n FROM taken GROUP BY stream_id) AS t
        FULL JOIN (SELECT stream_id, sum(n_read) AS n FROM tideline.staged_count WHERE attempt_id = %(attempt_id)s GROUP BY stream_id) AS c USING (stream_id)
        WHERE t.n IS DISTINCT FROM c.n) AS n_undecoded;
