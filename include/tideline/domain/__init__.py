"""What is true of offsets, batches and streams whatever the broker, the database or the scheduler. Standard library only."""
