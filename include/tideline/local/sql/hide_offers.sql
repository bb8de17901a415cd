-- The mishap of the demo.
ALTER TABLE ads.offers RENAME TO offers_away;
