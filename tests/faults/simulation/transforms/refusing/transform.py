"""Visits as they are folded before the author corrects the transform: some names are refused."""

from faults.visits import Visits

processor = Visits(refuses=True)
