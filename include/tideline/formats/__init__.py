"""What the bytes of keys and values hold: each format is a module, and an entry in `kinds`. Runs in the executors' Python, without PySpark."""
