"""The checker: compares what the pipelines produced with what is in Postgres, one law (invariant) at a time.

It is independent: it imports nothing of the code that it checks.
"""

from faults.checker.all_laws import violations
from faults.checker.continuous_checks import Watch, watch
from faults.checker.laws import LAWS
from faults.checker.remembered import Remembered
from faults.checker.snapshots import read

__all__ = ["LAWS", "Remembered", "Watch", "read", "violations", "watch"]
