-- The newest version of the baseline.
SELECT version, count(*)::int AS n_offers FROM ads.baseline_current GROUP BY version;
