"""Visits as they are folded after the author has corrected the transform."""

from faults.visits import Visits

processor = Visits(refuses=False)
