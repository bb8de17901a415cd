-- Until they are allowed again, or the transaction ends: for joins of rows that were written a moment ago.
SET LOCAL enable_nestloop = off;
