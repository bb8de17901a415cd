"""Rules of offsets, batches and streams that depend on no broker, database or scheduler. Standard library only."""
