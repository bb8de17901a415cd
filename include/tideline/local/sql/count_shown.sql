-- Count the impressions of each offer before an hour.
SELECT offer_id, count(*)::int AS n FROM ads.impressions WHERE shown_at < %(hour)s GROUP BY offer_id ORDER BY offer_id;
