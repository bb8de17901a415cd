"""What a pipeline's `transform.py` imports: `from tideline.transforms import dimension`."""

from spark_jobs.records.dimensions import dimension

__all__ = ["dimension"]
