-- Where an output ended when an attempt was about to commit to it. A sink that may forget its receipts searches the output from there.

ALTER TABLE tideline.intent ADD COLUMN position jsonb;
COMMENT ON COLUMN tideline.intent.position IS 'where the output ended before the commit, in the form of its sink; null where receipts are never forgotten, and of releases before';
