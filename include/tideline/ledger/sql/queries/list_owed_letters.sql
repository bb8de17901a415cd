-- List the published batches of a pipeline whose rejects are not yet known to be in its topic of rejects, oldest first; each with the attempt
-- that has published it: a ledger that was restored may know another one.
SELECT letters.batch_id, batch.identity, batch.attempt
FROM tideline.letters JOIN tideline.batch USING (batch_id)
WHERE letters.pipeline = %(pipeline)s AND letters.sent_at IS NULL ORDER BY letters.batch_id;
