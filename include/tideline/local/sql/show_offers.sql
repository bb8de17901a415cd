-- The end of the mishap.
ALTER TABLE ads.offers_away RENAME TO offers;
