-- Empty the sieve: the rows of the previous use are staged or refused.
TRUNCATE {sieve};
