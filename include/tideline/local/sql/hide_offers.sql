-- Rename the dimension table, so that the next run of the demo fails.
ALTER TABLE ads.offers RENAME TO offers_away;
