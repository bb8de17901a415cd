"""What the winning tasks of a stateful batch report to the driver, as JSON beside the number of their rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import orjson

from tideline.sinks.sink import Winner

FOLDING, EXPIRING = 1, 2
"""The phases of a batch: its records are folded, and then the timers come that it has reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """What a winning task of a stateful pipeline has done, besides the rows that it has staged."""

    phase: int
    n_states: int
    n_expired: int
    latest: dict[int, datetime]
    """The largest event time of the records that it has folded, by stream."""

    def winner(self, task: int, n_rows: int) -> Winner:
        """Return it as the result of its task."""
        times = {str(stream_id): at.isoformat() for stream_id, at in self.latest.items()}
        told = {"phase": self.phase, "n_states": self.n_states, "n_expired": self.n_expired, "latest": times}
        return Winner(task, n_rows, orjson.dumps(told).decode())


def report_of(winner: Winner) -> TaskReport:
    """Return what a winning task has reported."""
    told = orjson.loads(winner.staged or "")
    latest = {int(stream_id): datetime.fromisoformat(at) for stream_id, at in told.pop("latest").items()}
    return TaskReport(**told, latest=latest)


def latest_of(winners: Sequence[Winner]) -> dict[int, datetime]:
    """Return the largest event time of a batch's records, by stream."""
    found: dict[int, datetime] = {}
    for winner in winners:
        for stream_id, at in report_of(winner).latest.items():
            found[stream_id] = max(at, found.get(stream_id, at))
    return found
