-- Delete versions that are much older than the newest one.
DELETE FROM ads.baseline_version WHERE hour < (SELECT max(hour) FROM ads.baseline_version) - %(days)s * interval '1 day';
