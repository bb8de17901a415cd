-- The dimension table that impressions are joined with. In production another system maintains it. The demo begins with 400 offers.
CREATE SCHEMA IF NOT EXISTS ads;

CREATE TABLE IF NOT EXISTS ads.offers (
    offer_id bigint PRIMARY KEY,
    advertiser text NOT NULL,
    category text NOT NULL
);

INSERT INTO ads.offers (offer_id, advertiser, category)
SELECT n, 'advertiser ' || n % 40, (ARRAY['travel', 'games', 'food', 'finance', 'fashion'])[1 + n % 5]
FROM generate_series(1, 400) AS n
ON CONFLICT DO NOTHING;
