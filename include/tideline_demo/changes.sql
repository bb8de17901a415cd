-- name: create_advertisers
-- Create the table of advertisers in the database of the CRM, unless it is there, with two hundred of them. Tideline never connects to it.
CREATE TABLE IF NOT EXISTS public.advertisers (
    advertiser_id bigint PRIMARY KEY,
    name text NOT NULL,
    country text,
    budget numeric(12, 2) NOT NULL,
    active boolean NOT NULL DEFAULT true,
    signed_on date,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO public.advertisers (advertiser_id, name, country, budget, signed_on)
SELECT n, 'advertiser ' || n, (ARRAY['DE', 'FR', 'GB', NULL])[1 + n %% 4], n * 100.5, date '2020-01-01' + n::int
FROM generate_series(1, 200) AS n
ON CONFLICT DO NOTHING;

-- name: change_advertisers
-- Change a third of the advertisers, each of them several times, in transactions of their own and together; rename a key, delete some, sign others.
UPDATE public.advertisers SET budget = budget + 1, changed_at = clock_timestamp() WHERE advertiser_id %% 3 = 0;
UPDATE public.advertisers SET active = NOT active, changed_at = clock_timestamp() WHERE advertiser_id %% 6 = 0;
DELETE FROM public.advertisers WHERE advertiser_id %% 10 = 7;
UPDATE public.advertisers SET advertiser_id = advertiser_id + 1000000, changed_at = clock_timestamp()
WHERE advertiser_id = (
    SELECT max(one.advertiser_id) FROM public.advertisers AS one
    WHERE one.advertiser_id < 1000000
      AND NOT EXISTS (SELECT FROM public.advertisers AS other WHERE other.advertiser_id = one.advertiser_id + 1000000)
);
INSERT INTO public.advertisers (advertiser_id, name, country, budget)
SELECT n, 'advertiser ' || n, 'JP', 1 FROM generate_series(1, 200) AS n WHERE n %% 10 = 7 AND n %% 4 = 3
ON CONFLICT DO NOTHING;

-- name: mark_advertisers
-- Change the advertisers by which the tour sees that all changes before this one were sent: there are some of each partition of the topic.
INSERT INTO public.advertisers (advertiser_id, name, budget) SELECT -n, %(marker)s, 0 FROM generate_series(1, %(count)s) AS n
ON CONFLICT (advertiser_id) DO UPDATE SET name = excluded.name, changed_at = clock_timestamp();

-- name: list_advertisers
-- List the advertisers of the CRM.
SELECT advertiser_id, name, country, budget, active, signed_on, changed_at FROM public.advertisers ORDER BY advertiser_id;

-- name: drop_slot
-- Drop the replication slot of the connector, if it is there: one that is not read keeps the log of the server for ever.
SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %(slot)s AND NOT active;
