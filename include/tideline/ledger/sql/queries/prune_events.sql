-- Delete a pipeline's events that are older than declared, except those of open or published batches. -> how many. Only
-- this function of the ledger's owner can delete events.
SELECT tideline.prune_events(%(pipeline)s, %(days)s) AS n_events;
