"""States of keys: compares positions, states and undo with the batches that are folded and with the coverage. Needs no records."""

from collections.abc import Iterator, Mapping
from itertools import pairwise

from faults.checker.facts import Folded, KeyState, Position, Range, Undo, Violation
from faults.checker.index import PUBLISHED, Index

APPLIED, KEPT = "applied", "kept"
NEVER = Undo({}, {})


def there(index: Index) -> list[Folded]:
    """Return the batches that are folded and were not rewound, in order."""
    return [one for one in sorted(index.found.folded, key=lambda one: one.seq) if one.undo != APPLIED]


def folded(index: Index) -> Iterator[Violation]:
    """Yield stateful batches that are published and not folded, or the other way round, and gaps in the numbers of folded ones."""
    known = {one.batch_id: one for one in index.found.folded}
    for batch in index.found.batches:
        one = known.pop(batch.batch_id, None)
        is_published = batch.stateful and batch.state in PUBLISHED
        if is_published != (one is not None):
            yield _of(batch.batch_id, "folded", f"is {batch.state}, and {'is' if one else 'is not'} folded")
        elif one and (one.undo == APPLIED) != (batch.state == "superseded"):
            yield _of(batch.batch_id, "folded", f"is {batch.state}, and its undo is {one.undo}")
    for batch_id in known:
        yield _of(batch_id, "folded", "is folded, and no batch of the pipeline")
    numbers = sorted(one.seq for one in index.found.folded)
    if numbers != list(range(1, len(numbers) + 1)):
        yield Violation("folded", "batches", f"folded batches have the numbers {numbers}")


def position(index: Index) -> Iterator[Violation]:
    """Yield positions that are not the end of the last range that was folded."""
    last: dict[int, Range] = {}
    ranges = _ranges(index)
    for one in there(index):
        last |= {piece.stream_id: piece for piece in ranges.get(one.batch_id, ())}
    for stream in index.found.streams:
        piece, at = last.get(stream.stream_id), index.found.positions.get(stream.stream_id)
        if piece is not None:
            wanted: tuple[int, int | None] = (piece.end, piece.batch_id)
        elif at is not None:
            wanted = (stream.start_offset, None)  # every batch of it was rewound
        else:
            continue
        if at is None or (at.next_offset, at.batch_id) != wanted:
            found = at and (at.next_offset, at.batch_id)
            yield Violation("position", str(stream), f"is {found}, and the last range that was folded ends at {wanted}")


def folded_in_order(index: Index) -> Iterator[Violation]:
    """Yield ranges that were folded before an earlier one, and offsets between two of them that a batch or a rewind has left."""
    reached = {stream.stream_id: stream.start_offset for stream in index.found.streams}
    ranges = _ranges(index)
    for one in there(index):
        for piece in ranges.get(one.batch_id, ()):
            since, where = (
                reached.get(piece.stream_id, piece.start),
                f"batch {one.batch_id} in stream {piece.stream_id}",
            )
            if piece.start < since:
                yield Violation(
                    "folded in order", where, f"begins at {piece.start}, and the stream was folded up to {since}"
                )
            for owner in index.coverage.get(piece.stream_id, ()):
                if owner.start < piece.start and since < owner.end and owner.hole not in {"skipped", "lost"}:
                    what = f"batch {owner.batch_id}" if owner.hole is None else f"the hole {owner.hole}"
                    text = f"begins at {piece.start}, the stream was folded up to {since}, and {what} has [{owner.start}, {owner.end})"
                    yield Violation("folded in order", where, text)
            reached[piece.stream_id] = max(since, piece.end)


def rewound(index: Index) -> Iterator[Violation]:
    """Yield holes that a rewind has left before the position of their stream."""
    for stream_id, at in index.found.positions.items():
        for piece in index.coverage.get(stream_id, ()):
            if piece.hole == "rewound" and piece.start < at.next_offset:
                text = f"is folded up to {at.next_offset}, and a rewind has left [{piece.start}, {piece.end})"
                yield Violation("folded in order", f"stream {stream_id}", text)


def undo(index: Index) -> Iterator[Violation]:
    """Yield what the undo of the batches that can be rewound does not lead back to, and undo that is kept of other batches."""
    states: dict[str, KeyState] = dict(index.found.states)
    positions: dict[int, Position] = dict(index.found.positions)
    ranges = _ranges(index)
    found = there(index)
    kept = [one for one in found if one.undo == KEPT]
    if kept != found[len(found) - len(kept) :]:
        yield Violation(
            "undo", "batches", f"is kept of batches {[one.batch_id for one in kept]}, and not of those after them"
        )
    for batch_id in index.found.undo.keys() - {one.batch_id for one in kept}:
        yield _of(batch_id, "undo", "can not be rewound, and its undo is there")
    for one in reversed(kept):
        back = index.found.undo.get(one.batch_id, NEVER)
        yield from _undone(one, back, states, positions, {piece.stream_id for piece in ranges.get(one.batch_id, ())})
        go_back(back, states, positions)
    earlier = {one.batch_id for one in found} - {one.batch_id for one in kept}
    for state in states.values():
        if state.batch_id not in earlier:
            yield _of(state.batch_id, "undo", f"has changed key {state.key}, and nothing leads back behind it")


def _undone(
    one: Folded, back: Undo, states: Mapping[str, KeyState], positions: Mapping[int, Position], streams: set[int]
) -> Iterator[Violation]:
    changed = {key for key, state in states.items() if state.batch_id == one.batch_id}
    if missing := sorted(changed - back.states.keys()):
        yield _of(one.batch_id, "undo", f"has changed keys without undo: {missing[:5]}")
    for key in back.states.keys() - changed:
        if key in states:
            yield _of(
                one.batch_id, "undo", f"has undo of key {key}, which batch {states[key].batch_id} has changed last"
            )
    if back.positions.keys() != streams:
        yield _of(one.batch_id, "undo", f"holds streams {sorted(streams)}, and has undo of {sorted(back.positions)}")
    for stream_id, before in back.positions.items():
        now = positions.get(stream_id)
        if now is None or now.batch_id != one.batch_id or before.next_offset > now.next_offset:
            yield _of(one.batch_id, "undo", f"would take stream {stream_id} back from {now} to {before}")


def go_back(back: Undo, states: dict[str, KeyState], positions: dict[int, Position]) -> None:
    """Undo a batch."""
    positions |= back.positions
    for key, state in back.states.items():
        if state is None:
            states.pop(key, None)
        else:
            states[key] = state


def watermark(index: Index) -> Iterator[Violation]:
    """Yield streams whose largest event time goes back from batch to batch."""
    found = there(index)
    for stream_id, at in index.found.positions.items():
        of = (index.found.undo.get(one.batch_id, NEVER).positions.get(stream_id) for one in found)
        times = [before.max_time for before in of if before is not None]
        for one, following in pairwise([*times, at.max_time]):
            if one is not None and (following is None or following < one):
                yield Violation(
                    "watermark", f"stream {stream_id}", f"the largest event time was {one}, and then {following}"
                )


def waiting(index: Index) -> Iterator[Violation]:
    """Yield offsets that a rewind has left and that were not loaded again. Checked only after all runs have finished."""
    for stream in index.found.streams:
        for piece in index.coverage.get(stream.stream_id, ()):
            if piece.hole == "rewound" and stream.state == "active":
                yield Violation("reloaded", str(stream), f"a rewind has left [{piece.start}, {piece.end})")


def _ranges(index: Index) -> dict[int, list[Range]]:
    by_batch: dict[int, list[Range]] = {}
    for piece in index.found.ranges:
        by_batch.setdefault(piece.batch_id, []).append(piece)
    return by_batch


def _of(batch_id: int, law: str, text: str) -> Violation:
    return Violation(law, f"batch {batch_id}", text)
