-- List the visits that have ended, and those that are open.
SELECT true AS has_ended, user_id, first_at, last_at, impressions, clicks, revenue FROM ads.sessions
UNION ALL
SELECT false, key::jsonb ->> 0, (value ->> 'first_at')::timestamptz, (value ->> 'last_at')::timestamptz,
       (value ->> 'impressions')::bigint, (value ->> 'clicks')::bigint, (value ->> 'revenue')::numeric
FROM tideline.state WHERE pipeline = %(pipeline)s;
