-- List what the batches after one have flagged.
SELECT offer_id, flag, seen, impressions, expected, score, model_version FROM ads.offer_anomalies
WHERE tideline_batch > %(after)s ORDER BY offer_id;
