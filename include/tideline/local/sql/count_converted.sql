-- Count the conversions of each offer before an hour.
SELECT offer_id, count(*)::int AS n FROM ads.conversions WHERE converted_at < %(hour)s GROUP BY offer_id;
