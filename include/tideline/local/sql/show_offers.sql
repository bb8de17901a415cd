-- Give the dimension table its name back.
ALTER TABLE ads.offers_away RENAME TO offers;
