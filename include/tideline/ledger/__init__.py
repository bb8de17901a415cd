"""The ledger in Postgres: who owns which offsets. One SQL file a verb; no other package touches these tables."""
