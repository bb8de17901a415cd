"""Measurements of speed and memory, alternating between the ways that are compared. `make bench` runs them; no test asserts a time."""
