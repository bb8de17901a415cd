"""The Kafka sink: rows are staged in the ledger's database, and the driver sends them to a topic in one transaction."""
