-- Rename the dimension table, so that the next run of the demo fails. A demo that was killed meanwhile has left one behind.
DROP TABLE IF EXISTS ads.offers_away;
ALTER TABLE ads.offers RENAME TO offers_away;
