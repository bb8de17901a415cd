"""States: compares the states of batches and streams with their histories."""

from collections.abc import Iterator, Sequence

from faults.checker.facts import Event, Violation
from faults.checker.index import OPEN, Index

Ways = frozenset[tuple[str | None, str | None]]

WAYS_OF_BATCHES: Ways = frozenset(
    {
        (None, "planned"),
        ("planned", "writing"),
        ("planned", "abandoned"),
        ("writing", "writing"),
        ("writing", "failed"),
        ("writing", "published"),
        ("failed", "writing"),
        ("failed", "abandoned"),
        ("published", "advanced"),
        ("published", "superseded"),
        ("advanced", "superseded"),
    }
)
WAYS_OF_STREAMS: Ways = frozenset(
    {
        (None, "active"),
        ("active", "stopped"),
        ("active", "retired"),
        ("stopped", "active"),
        ("stopped", "retired"),
    }
)

History = tuple[str, str, bool, Sequence[Event], Ways]
"""Name, current state, whether the beginning may have been pruned, the changes of state, and the permitted transitions."""


def _histories(index: Index) -> Iterator[History]:
    for batch in index.found.batches:
        changes = [event for event in index.batch_events.get(batch.batch_id, ()) if event.to_state is not None]
        pruned = index.pruned and batch.state not in {*OPEN, "published"}
        yield f"batch {batch.batch_id}", batch.state, pruned, changes, WAYS_OF_BATCHES
    for stream in index.found.streams:
        changes = [event for event in index.stream_events.get(stream.stream_id, ()) if event.to_state is not None]
        yield str(stream), stream.state, index.pruned, changes, WAYS_OF_STREAMS


def illegal_transition(index: Index) -> Iterator[Violation]:
    for where, _, _, changes, ways in _histories(index):
        for change in changes:
            if (change.from_state, change.to_state) not in ways:
                yield Violation(
                    "illegal transition",
                    where,
                    f"from {change.from_state} to {change.to_state} (event {change.event_id})",
                )


def broken_chain(index: Index) -> Iterator[Violation]:
    for where, _, pruned, changes, _ in _histories(index):
        if not changes and not pruned:
            yield Violation("broken chain", where, "has no history")
        at = changes[0].from_state if pruned and changes else None
        for change in changes:
            if change.from_state != at:
                yield Violation(
                    "broken chain", where, f"was {at}, and event {change.event_id} goes on from {change.from_state}"
                )
            at = change.to_state


def state(index: Index) -> Iterator[Violation]:
    for where, now, _, changes, _ in _histories(index):
        if changes and changes[-1].to_state != now:
            yield Violation("state", where, f"is {now}, and its history ends with {changes[-1].to_state}")
