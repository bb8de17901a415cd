-- The rows before are staged or refused.
TRUNCATE {sieve};
