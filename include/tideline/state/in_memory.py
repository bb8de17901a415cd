"""States in memory: fold whole batches without Spark and Postgres. Used to try a pipeline, and by the tests."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tideline.state.folding import Fold, Folded, FoldedStream, KeyedRecord, Planned, Rejected, expired, watermark
from tideline.state.key_state import Kept, Stored
from tideline.state.rules import Rules


@dataclass(slots=True, kw_only=True)
class States:
    """The states of a pipeline, and how far its streams are."""

    rules: Rules
    streams: Mapping[int, str]
    """Topic and partition of each stream, as in `orders/3`, by id."""
    stored: dict[str, Stored] = field(default_factory=dict)
    """By key."""
    latest: dict[int, datetime] = field(default_factory=dict)
    """The largest event time so far, by stream."""
    planned: Mapping[int, Sequence[Planned]] = field(default_factory=dict)
    """When the offsets of each stream were planned, by id; nothing for a stream that has no plans."""

    def fold(self, records: Iterable[KeyedRecord], chunk_records: int | None = None) -> Folded:
        """Fold one batch, and let the timers come that its streams have reached.

        Args:
            records: The records of the batch, in any order.
            chunk_records: The most records that are folded at once; None for all of them.

        Returns:
            The rows; each state that has changed, its last form last; and the rejected records by their position in
            `records`.

        Raises:
            FatalError: `on_expiry` has failed. The states are as before.
        """
        given = list(records)
        order = sorted(range(len(given)), key=lambda number: given[number][:3])
        streams = {
            stream_id: FoldedStream(
                name, watermark(self.latest.get(stream_id), self.rules.lateness), self.planned.get(stream_id, ())
            )
            for stream_id, name in self.streams.items()
        }
        fold = Fold(self.rules, streams)
        found = Folded()
        size = chunk_records or len(given) or 1
        for start in range(0, len(order), size):
            part = order[start : start + size]
            folded = fold.fold([given[number] for number in part], self.stored)
            _add(found, folded)
            found.rejected.extend(Rejected(part[one.number], one.reason) for one in folded.rejected)
        _add(found, fold.finish())
        latest = {**self.latest, **{one: max(at, self.latest.get(one, at)) for one, at in fold.latest.items()}}
        after = self._after(found.kept)
        for one in expired(self.rules, *self._due(after, latest, {record.stream_id for record in given})):
            _add(found, one)
        self.stored, self.latest = self._after(found.kept), latest
        found.rejected.sort()
        return found

    def _after(self, kept: Iterable[Kept]) -> dict[str, Stored]:
        """Return the states with those that have changed."""
        after = dict(self.stored)
        for one in kept:
            after.pop(one.key, None)
            if one.value is not None:
                after[one.key] = Stored(
                    stream_id=one.stream_id,
                    stream=self.streams[one.stream_id],
                    value=one.value,
                    expires_at=one.expires_at,
                    offset=one.offset,
                )
        return after

    def _due(
        self, states: Mapping[str, Stored], latest: Mapping[int, datetime], streams: Iterable[int]
    ) -> tuple[list[tuple[str, Stored]], dict[str, datetime]]:
        """Return the keys whose timers have come at the end of a batch, and the watermarks of its streams."""
        found = {self.streams[one]: watermark(latest.get(one), self.rules.lateness) for one in streams}
        reached = {one: at for one, at in found.items() if at is not None}
        due = [
            (key, state)
            for key, state in sorted(states.items())
            if state.expires_at is not None and state.stream in reached and state.expires_at <= reached[state.stream]
        ]
        return due, reached


def _add(found: Folded, more: Folded) -> None:
    found.rows.extend(more.rows)
    found.kept.extend(more.kept)
