-- All rows of the output table.
SELECT count(*) AS n_rows FROM ads.impressions;
