"""What is done to records, a table at a time, in the executors' Python: decode, transform, count, and keep the bytes of what is rejected."""
