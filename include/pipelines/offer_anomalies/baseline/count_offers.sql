-- Count impressions and conversions of each offer, both as they are at one moment.
INSERT INTO ads.baseline (version, offer_id, impressions, conversions)
SELECT %(version)s, offer_id, coalesce(shown.n, 0), coalesce(converted.n, 0)
FROM (
    SELECT offer_id, count(*) AS n FROM ads.impressions WHERE shown_at >= %(begins_at)s AND shown_at < %(ends_at)s GROUP BY offer_id
) AS shown
FULL JOIN (
    SELECT offer_id, count(*) AS n FROM ads.conversions WHERE converted_at >= %(begins_at)s AND converted_at < %(ends_at)s GROUP BY offer_id
) AS converted USING (offer_id);
