"""Speed and memory, measured side by side. `make bench` runs it; no test asserts a time."""
