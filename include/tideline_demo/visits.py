"""What the demo and the tests expect of the pipeline `sessions`, by a plain look at all events at once.

It knows no batches, states and timers: the events of each user, by time, are divided at each pause.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from operator import attrgetter

from tideline_demo.ad_events import Event, Place

PAUSE = timedelta(minutes=30)
LATENESS = timedelta(minutes=10)

Visit = tuple[str, datetime, datetime, int, int, Decimal]
"""User, first and last event, impressions, clicks, revenue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visits:
    """Rows, states and rejects, as they are or as they should be."""

    ended: list[Visit]
    opened: list[Visit]
    rejected: set[Place]

    def compare(self, found: "Visits") -> list[str]:
        """Return one line for each kind of difference to what was found, and none when they agree."""
        counted = [
            (_differing(self.ended, found.ended), "visits that have ended are missing, wrong, too many or there twice"),
            (_differing(self.opened, found.opened), "visits that are open are missing, wrong or too many"),
            (len(self.rejected - found.rejected), "late events are not among the rejects"),
            (len(found.rejected - self.rejected), "events are rejects that should not be"),
        ]
        return [f"{count:,} {what}" for count, what in counted if count]


def expected(sent: Mapping[Place, Event]) -> Visits:
    """Return what the pipeline makes of events that were sent."""
    newest: dict[int, datetime] = {}
    of_users: dict[tuple[int, str], list[Event]] = defaultdict(list)
    for (partition, _), event in sent.items():
        if not event.is_late:
            newest[partition] = max(event.at, newest.get(partition, event.at))
            of_users[partition, event.user_id].append(event)
    ended: list[Visit] = []
    opened: list[Visit] = []
    for (partition, _), events in of_users.items():
        *before, last = map(_visit, _divided(events))
        ended += before
        (ended if last[2] + PAUSE <= newest[partition] - LATENESS else opened).append(last)
    return Visits(ended=ended, opened=opened, rejected={place for place, event in sent.items() if event.is_late})


def _divided(events: Iterable[Event]) -> Iterator[list[Event]]:
    visit: list[Event] = []
    for event in sorted(events, key=attrgetter("at")):
        if visit and event.at >= visit[-1].at + PAUSE:
            yield visit
            visit = []
        visit.append(event)
    yield visit


def _visit(events: Sequence[Event]) -> Visit:
    clicks = sum(event.is_click for event in events)
    revenue = sum((event.revenue for event in events), Decimal(0))
    return events[0].user_id, events[0].at, events[-1].at, len(events) - clicks, clicks, revenue


def _differing(expected: Sequence[Visit], found: Sequence[Visit]) -> int:
    """Return how many visits are in one of both only, or twice."""
    return len(set(expected) ^ set(found)) + len(found) - len(set(found))
