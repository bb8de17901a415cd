-- Drop an index whose creation was interrupted, so that it can be created again. Does not block writers.
DROP INDEX CONCURRENTLY {index};
