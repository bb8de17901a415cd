"""Ask a schema registry, and keep what it says in the ledger."""
