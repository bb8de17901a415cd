-- The fences of the attempts that may have committed a batch outside, or may still do so: they have an intent, and no
-- seal has ruled them out. Newest first.
SELECT a.fence FROM tideline.intent i JOIN tideline.attempt a USING (attempt_id) JOIN tideline.batch b ON b.batch_id = i.batch_id
WHERE i.batch_id = %(batch_id)s AND a.fence >= b.sealed_fence AND b.state IN ('planned', 'writing', 'failed')
ORDER BY a.fence DESC;
