"""The ledger in Postgres: which batch or hole owns which offsets.

Each operation is one SQL file. No other package accesses these tables.
"""
