"""Changes of a database as Debezium's connectors write them."""
