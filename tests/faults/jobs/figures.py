"""What was done to how much, and how soon it went on."""

import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class Figures:
    """Of one or more schedules."""

    schedules: int = 0
    records: int = 0
    """Checked one by one."""
    kills: int = 0
    """Processes that were ended by SIGKILL."""
    faults: Counter[str] = field(default_factory=Counter)
    """How often which fault came at which moment."""
    codes: Counter[int] = field(default_factory=Counter)
    """How often write tasks ended with which exit code."""
    recovery_s: list[float] = field(default_factory=list)
    """From the end of each fault to the next batch that was published."""

    def count(self, fault: object, killed: int) -> None:
        """Count a fault that has just ended; until `recoveries` its end stands where the seconds will be."""
        self.faults[str(fault)] += 1
        self.kills += killed
        if killed:
            self.recovery_s.append(time.time())

    def add(self, other: "Figures") -> None:
        """Count another one in."""
        self.schedules += other.schedules
        self.records += other.records
        self.kills += other.kills
        self.faults += other.faults
        self.codes += other.codes
        self.recovery_s += other.recovery_s

    def as_json(self) -> dict[str, object]:
        """As JSON can hold it."""
        return {
            "schedules": self.schedules,
            "records": self.records,
            "kills": self.kills,
            "faults": dict(sorted(self.faults.items())),
            "exit_codes": {str(code): count for code, count in sorted(self.codes.items())},
            "recovery_s": spread(self.recovery_s),
        }


def recoveries(ended: Sequence[float], published: Sequence[float]) -> list[float]:
    """Seconds from each end of a fault to the next batch, without those behind which there was nothing left to publish."""
    return [min(later) - end for end in ended if (later := [at for at in published if at > end])]


def spread(seconds: Sequence[float]) -> dict[str, float]:
    """min, median, p95 and max, by nearest rank; nothing of nothing."""
    ranked = sorted(seconds)
    if not ranked:
        return {}
    ranks = {"min": 0.0, "median": 0.5, "p95": 0.95, "max": 1.0}
    return {name: round(ranked[max(0, math.ceil(share * len(ranked)) - 1)], 1) for name, share in ranks.items()}
