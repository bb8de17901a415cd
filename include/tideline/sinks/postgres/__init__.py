"""The Postgres sink: rows in a table of the ledger's database, published in the ledger's transaction."""
