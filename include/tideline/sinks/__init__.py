"""The sinks: each makes a batch visible exactly once."""
