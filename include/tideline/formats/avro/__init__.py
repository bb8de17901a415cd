"""The format `avro`: records of one writer's schema become columns, field by field of all records at once."""
