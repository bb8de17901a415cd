"""What the simulation has done, counted, so that it cannot do nothing without anybody noticing."""

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(slots=True)
class Tally:
    """Numbers of things that happened."""

    schedules: int = 0
    operations: Counter[str] = field(default_factory=Counter)
    """By name."""
    strikes: Counter[str] = field(default_factory=Counter)
    """Faults that struck a process, by what they do."""
    tasks: Counter[str] = field(default_factory=Counter)
    """Processes by their task, and how they ended: "Plan ok", "Write RetryableError", "Write killed"."""
    published: Counter[str] = field(default_factory=Counter)
    """Batches by kind."""
    commits: int = 0
    unknown_commits: int = 0
    """COMMITs whose answer was lost."""
    resolved: int = 0
    """Of those, the ones that published, looked up and found or not found."""
    refused: int = 0
    """Attempts that came too late."""
    passed_over: int = 0
    """Batches that were to be written and were through."""
    replays_unchanged: int = 0
    """Replays that published, and changed no row and no reject."""
    records: int = 0
    """Offsets that heads have passed."""
    rounds: int = 0
    """Of healing."""

    def add(self, other: "Tally") -> None:
        """Count what another one has counted."""
        for one in fields(self):
            if isinstance(mine := getattr(self, one.name), Counter):
                mine.update(getattr(other, one.name))
            else:
                setattr(self, one.name, mine + getattr(other, one.name))

    @property
    def crashes(self) -> int:
        """Faults of all kinds that struck."""
        return self.strikes.total()

    def numbers(self) -> dict[str, Any]:
        """All of it, as JSON takes it."""
        counted = {one.name: getattr(self, one.name) for one in fields(self)}
        return {
            "crashes": self.crashes,
            **{name: dict(n) if isinstance(n, Counter) else n for name, n in counted.items()},
        }
