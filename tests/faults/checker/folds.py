"""Compares states, positions, rows, rejects and counts with those of an uninterrupted fold over exactly the loaded offsets."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from faults.checker.facts import KeyState, Position, Stream, Truth, Violation
from faults.checker.index import Index
from faults.checker.record_fate import compare_reject
from faults.checker.states import KEPT, NEVER, go_back, there
from faults.checker.visits import Outcome, Rules, outcome


def folds(index: Index, truth: Truth, rules: Rules) -> Iterator[Violation]:
    """Check a stateful pipeline, now and at each batch to which it can go back."""
    for topic_id, partition in index.found.strangers:
        yield Violation("fold", f"partition {partition} of topic {topic_id}", "the output has rows of it")
    found = there(index)
    wanted = outcome(index, rules, iter(found), truth.records)
    for stream in index.found.streams:
        yield from _rows(index, stream, wanted)
        yield from _rejects(index, stream, wanted)
    yield from _counts(index, wanted)
    states, positions = dict(index.found.states), dict(index.found.positions)
    ids = [0, *(one.batch_id for one in found)]
    yield from _state("fold", "the end", index, (states, positions), wanted.after[ids[-1]])
    for one, before in zip(reversed(found), reversed(ids[:-1]), strict=True):
        if one.undo != KEPT:
            break
        go_back(index.found.undo.get(one.batch_id, NEVER), states, positions)
        yield from _state("undo", f"before batch {one.batch_id}", index, (states, positions), wanted.after[before])


def _rows(index: Index, stream: Stream, wanted: Outcome) -> Iterator[Violation]:
    there_ = Counter((row.offset, row.batch_id, row.values) for row in index.found.rows(stream))
    expected = Counter(row[1:] for row in wanted.rows if row.stream_id == stream.stream_id)
    for text, rows in (("one too many", there_ - expected), ("missing", expected - there_)):
        for (offset, batch_id, values), _ in sorted(rows.items(), key=str):
            yield Violation("fold", f"{stream} offset {offset}", f"row {values} of batch {batch_id} is {text}")


def _rejects(index: Index, stream: Stream, wanted: Outcome) -> Iterator[Violation]:
    expected = {place[1]: of for place, of in wanted.rejects.items() if place[0] == stream.stream_id}
    for reject in index.found.rejects(stream):
        where = f"{stream} offset {reject.offset}"
        batch_id, record = expected.pop(reject.offset, (None, None))
        if record is None or batch_id != reject.batch_id:
            yield Violation("fold", where, f"a reject of batch {reject.batch_id}; expected one of batch {batch_id}")
        else:
            yield from compare_reject(where, record, reject)
    for offset, (batch_id, _) in expected.items():
        yield Violation("fold", f"{stream} offset {offset}", f"no reject; expected one of batch {batch_id}")


def _counts(index: Index, wanted: Outcome) -> Iterator[Violation]:
    for piece in index.found.ranges:
        counts = wanted.counts.get((piece.batch_id, piece.stream_id))
        if counts is not None:
            found = (piece.n_read, piece.n_written, piece.n_rejected)
            expected = (counts.n_read, counts.n_written, counts.n_rejected)
            if found != expected:
                text = f"read, written and rejected are {found}, expected {expected}"
                yield Violation("miscounted", f"batch {piece.batch_id} in stream {piece.stream_id}", text)
    for one in there(index):
        if one.n_expired != wanted.n_expired.get(one.batch_id, 0):
            text = f"{one.n_expired} rows of timers, expected {wanted.n_expired.get(one.batch_id, 0)}"
            yield Violation("miscounted", f"batch {one.batch_id}", text)


def _state(
    law: str,
    when: str,
    index: Index,
    found: tuple[Mapping[str, KeyState], Mapping[int, Position]],
    wanted: tuple[Mapping[str, KeyState], Mapping[int, Position]],
) -> Iterator[Violation]:
    starts = {stream.stream_id: stream.start_offset for stream in index.found.streams}
    beginning = {one: Position(one, starts[one], None, None) for one in found[1].keys() - wanted[1].keys()}
    pairs: tuple[tuple[str, Mapping[Any, Any], Mapping[Any, Any]], ...] = (
        ("key", found[0], wanted[0]),
        ("stream", found[1], {**wanted[1], **beginning}),
    )
    for what, there_, expected in pairs:
        for name in sorted(there_.keys() | expected.keys()):
            if there_.get(name) != expected.get(name):
                yield Violation(law, f"{what} {name}", f"{when}: is {there_.get(name)}, expected {expected.get(name)}")
