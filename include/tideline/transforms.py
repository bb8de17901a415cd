"""What a pipeline's `transform.py` imports: `from tideline.transforms import dimension`."""

from tideline.records.dimensions import dimension

__all__ = ["dimension"]
