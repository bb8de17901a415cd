"""Count what the simulation does, so that a simulation that does nothing is noticed."""

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(slots=True)
class Tally:
    """Counts of what happened."""

    schedules: int = 0
    operations: Counter[str] = field(default_factory=Counter)
    """By name."""
    strikes: Counter[str] = field(default_factory=Counter)
    """Faults that struck a process, by kind."""
    tasks: Counter[str] = field(default_factory=Counter)
    """Processes by task and outcome: "Plan ok", "Write RetryableError", "Write killed"."""
    published: Counter[str] = field(default_factory=Counter)
    """Batches by kind."""
    commits: int = 0
    unknown_commits: int = 0
    """COMMITs whose answer was lost."""
    resolved: int = 0
    """Those of them that published a batch; the outcome was looked up in the ledger."""
    refused: int = 0
    """Attempts that were refused because they came too late."""
    passed_over: int = 0
    """Batches that were to be written and were already finished: the job skipped them."""
    replays_unchanged: int = 0
    """Replays that published and changed no row and no reject."""
    outside: Counter[str] = field(default_factory=Counter)
    """Commits to the outside sink: sent, landed, refused because the batch had another version then, lost."""
    folded: Counter[str] = field(default_factory=Counter)
    """Of stateful pipelines: batches that were folded and that were rewound, and rows of timers."""
    settled: int = 0
    """Batches published by another attempt than the one that has committed them."""
    records: int = 0
    """Offsets that heads moved over."""
    rounds: int = 0
    """Rounds of runs during healing."""

    def add(self, other: "Tally") -> None:
        """Add the counts of another tally."""
        for one in fields(self):
            if isinstance(mine := getattr(self, one.name), Counter):
                mine.update(getattr(other, one.name))
            else:
                setattr(self, one.name, mine + getattr(other, one.name))

    @property
    def crashes(self) -> int:
        """Return the number of all faults that struck."""
        return self.strikes.total()

    def numbers(self) -> dict[str, Any]:
        """Return all counts in a form that JSON can hold."""
        counted = {one.name: getattr(self, one.name) for one in fields(self)}
        return {
            "crashes": self.crashes,
            **{name: dict(n) if isinstance(n, Counter) else n for name, n in counted.items()},
        }
