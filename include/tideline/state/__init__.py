"""Folds the records of keys into states: typed values, timers, lateness and rejects. Knows neither Spark nor Postgres."""
