-- Add the version of an hour. It ends where impressions and conversions are both loaded: an hour with only the impressions would look as if offers had
-- stopped converting, and make the rates too low.
INSERT INTO ads.baseline_version (hour, begins_at, ends_at)
SELECT %(hour)s, ends_at - %(days)s * interval '1 day', ends_at
FROM (
    SELECT least(%(hour)s, (SELECT max(shown_at) FROM ads.impressions), (SELECT max(converted_at) FROM ads.conversions)) AS ends_at
) AS loaded
RETURNING version, begins_at, ends_at;
