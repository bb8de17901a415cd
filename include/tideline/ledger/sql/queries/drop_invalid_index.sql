-- Take away an index whose making was cut off, so that it can be made anew. Locks no writer out.
DROP INDEX CONCURRENTLY {index};
