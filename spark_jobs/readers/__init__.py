"""Where the records of a batch come from: Kafka, or the rejects that were kept. A reader chooses no offsets."""
