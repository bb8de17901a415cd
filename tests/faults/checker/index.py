"""The facts that were found, indexed by stream and by batch."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeVar

from faults.checker.facts import Attempt, Batch, Coverage, Event, Found, Range, Stream

PUBLISHED = frozenset({"published", "advanced", "superseded"})
OPEN = frozenset({"planned", "writing", "failed"})
REDRIVE = "redrive"

Thing = TypeVar("Thing")


@dataclass(frozen=True, slots=True)
class Index:
    """The ledger, indexed by stream and by batch."""

    found: Found
    pruned: bool
    """Upkeep has deleted old events."""
    batches: Mapping[int, Batch]
    streams: Mapping[int, Stream]
    ranges: Mapping[int, Sequence[Range]]
    """By stream."""
    coverage: Mapping[int, Sequence[Coverage]]
    """By stream, ascending."""
    attempts: Mapping[int, Sequence[Attempt]]
    """By batch, fences ascending."""
    batch_events: Mapping[int, Sequence[Event]]
    stream_events: Mapping[int, Sequence[Event]]
    published_by: Mapping[int, int]
    """The id of the event that published each batch: their order is the order of publications."""

    def is_published(self, batch_id: int) -> bool:
        batch = self.batches.get(batch_id)
        return batch is not None and batch.state in PUBLISHED

    def claims_coverage(self, piece: Range) -> bool:
        """Return whether the range is part of the coverage because its batch was published, and not rewound; a re-drive's ranges never are."""
        if not self.is_published(piece.batch_id):
            return False
        return self.batches[piece.batch_id].kind != REDRIVE and not self.was_rewound(piece.batch_id)

    def was_rewound(self, batch_id: int) -> bool:
        batch = self.batches.get(batch_id)
        return batch is not None and batch.stateful and batch.state == "superseded"


def index(found: Found, *, pruned: bool = False) -> Index:
    """Index everything except rows and rejects."""
    events = sorted(found.events, key=attrgetter("event_id"))
    return Index(
        found=found,
        pruned=pruned,
        batches={batch.batch_id: batch for batch in found.batches},
        streams={stream.stream_id: stream for stream in found.streams},
        ranges=_by("stream_id", found.ranges),
        coverage=_by("stream_id", sorted(found.coverage, key=attrgetter("start", "end"))),
        attempts=_by("batch_id", sorted(found.attempts, key=attrgetter("fence"))),
        batch_events=_by("batch_id", (event for event in events if event.batch_id is not None)),
        stream_events=_by("stream_id", (event for event in events if event.batch_id is None)),
        published_by={
            event.batch_id: event.event_id for event in events if event.batch_id and event.to_state == "published"
        },
    )


def _by(name: str, things: Iterable[Thing]) -> Mapping[Any, Sequence[Thing]]:
    grouped: dict[Hashable, list[Thing]] = defaultdict(list)
    for thing in things:
        grouped[getattr(thing, name)].append(thing)
    return grouped
