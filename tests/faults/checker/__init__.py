"""Compares what was produced with what is in Postgres, law by law. Independent: it imports nothing of the code that is checked."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from faults.checker.facts import Found, Truth, Violation

LAWS: dict[str, str] = {}
"""Each law by its name, in one sentence."""


def violations(found: Found, truth: Truth, *, quiet: bool, pruned: bool = False) -> list[Violation]:
    """What does not hold, at most a few of each law.

    Args:
        found: The ledger and the output of one moment.
        truth: What Kafka held, and what the transform makes of it.
        quiet: All faults have ended and every run is through: nothing may be left open.
        pruned: Upkeep has deleted old events, so that a history may begin anywhere.
    """
    raise NotImplementedError


@contextmanager
def read(url: str, pipeline: str, table: str, columns: Sequence[str]) -> Iterator[Found]:
    """The ledger of a pipeline and its output table, of one moment: `with read(...) as found`.

    Rows and rejects stream from the server within that moment, so `found` is to be used inside the block.
    """
    raise NotImplementedError
    yield
