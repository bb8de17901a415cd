"""The ledger in Postgres: which batch or hole owns which offsets.

Each module has its statements beside it, in an SQL file of the same name. No other package accesses these tables.
"""
