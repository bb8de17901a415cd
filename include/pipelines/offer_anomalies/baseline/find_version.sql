-- The version of an hour, if it was computed.
SELECT version FROM ads.baseline_version WHERE hour = %(hour)s;
