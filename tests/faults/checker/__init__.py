"""Compares what was produced with what is in Postgres, law by law. Independent: it imports nothing of the code that is checked."""

from faults.checker.checking import violations
from faults.checker.laws import LAWS
from faults.checker.reading import read
from faults.checker.remembered import Remembered
from faults.checker.watching import Watch, watch

__all__ = ["LAWS", "Remembered", "Watch", "read", "violations", "watch"]
