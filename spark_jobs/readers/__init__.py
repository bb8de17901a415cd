"""Read the records of a batch, from Kafka or from kept rejects. A reader does not choose offsets."""
