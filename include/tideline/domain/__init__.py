"""What is true of offsets, batches and streams whatever broker, database or scheduler. Standard library only."""
