"""Count the faults and records of schedules, and measure the recovery times."""

import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class Figures:
    """The figures of one or more schedules."""

    schedules: int = 0
    records: int = 0
    """Records that were checked, one by one."""
    kills: int = 0
    """Processes that were killed with SIGKILL."""
    faults: Counter[str] = field(default_factory=Counter)
    """Number of faults by kind and moment."""
    sinks: Counter[str] = field(default_factory=Counter)
    """Number of schedules by kind of sink."""
    commits: Counter[str] = field(default_factory=Counter)
    """What has become of commits to outside sinks."""
    rewound: int = 0
    """Batches that were loaded again after a rewind."""
    codes: Counter[int] = field(default_factory=Counter)
    """Number of write tasks by exit code."""
    recovery_s: list[float] = field(default_factory=list)
    """Seconds from the end of each fault to the next published batch."""

    def count(self, fault: object, killed: int) -> None:
        """Count a fault that has just ended. `recovery_s` holds the time of its end until `recoveries` replaces it by
        seconds."""
        self.faults[str(fault)] += 1
        self.kills += killed
        if killed:
            self.recovery_s.append(time.time())

    def add(self, other: "Figures") -> None:
        """Add other figures."""
        self.schedules += other.schedules
        self.records += other.records
        self.kills += other.kills
        self.faults += other.faults
        self.sinks += other.sinks
        self.commits += other.commits
        self.rewound += other.rewound
        self.codes += other.codes
        self.recovery_s += other.recovery_s

    def as_json(self) -> dict[str, object]:
        """Return the figures in a form that JSON can hold."""
        return {
            "schedules": self.schedules,
            "records": self.records,
            "kills": self.kills,
            "faults": dict(sorted(self.faults.items())),
            "sinks": dict(sorted(self.sinks.items())),
            "commits": dict(sorted(self.commits.items())),
            "rewound": self.rewound,
            "exit_codes": {str(code): count for code, count in sorted(self.codes.items())},
            "recovery_s": spread(self.recovery_s),
        }


def recoveries(ended: Sequence[float], published: Sequence[float]) -> list[float]:
    """Return the seconds from each end of a fault to the next batch. Faults after which nothing was left to publish
    are left out."""
    return [min(later) - end for end in ended if (later := [at for at in published if at > end])]


def spread(seconds: Sequence[float]) -> dict[str, float]:
    """Return min, median, p95 and max by nearest rank; an empty dictionary for no values."""
    ranked = sorted(seconds)
    if not ranked:
        return {}
    ranks = {"min": 0.0, "median": 0.5, "p95": 0.95, "max": 1.0}
    return {name: round(ranked[max(0, math.ceil(share * len(ranked)) - 1)], 1) for name, share in ranks.items()}
