"""Connections to Kafka brokers, and queries about topics and offsets. Reads no values of records."""
