-- List what some batches have flagged.
SELECT offer_id, flag, seen, impressions, expected, score, model_version FROM ads.offer_anomalies
WHERE tideline_batch = ANY (%(batch_ids)s) ORDER BY offer_id;
