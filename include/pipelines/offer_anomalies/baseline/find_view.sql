-- Whether create.sql has run: it creates the view after the tables.
SELECT FROM pg_class WHERE oid = to_regclass('ads.baseline_current');
