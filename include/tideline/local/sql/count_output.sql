-- Count all rows of the target table.
SELECT count(*) AS n_rows FROM ads.impressions;
