"""Process records in the executors' Python, one Arrow table at a time: decode, transform and count them, and store the bytes of rejects."""
