"""Attempts and reservations: each batch has one writer and at most one winner, and each offset is reserved by at most one batch."""

from collections.abc import Iterator
from itertools import pairwise

from faults.checker.facts import Batch, Violation
from faults.checker.index import PUBLISHED, Index


def fence(index: Index) -> Iterator[Violation]:
    for batch in index.found.batches:
        attempts = index.attempts.get(batch.batch_id, ())
        fences = [attempt.fence for attempt in attempts]
        newest = attempts[-1].attempt if attempts else None
        if fences != list(range(1, batch.fence + 1)):
            yield Violation(
                "fence", f"batch {batch.batch_id}", f"its fence is {batch.fence}, those of its attempts are {fences}"
            )
        elif newest != batch.attempt:
            yield Violation(
                "fence", f"batch {batch.batch_id}", f"names attempt {batch.attempt}, and the newest is {newest}"
            )
        elif not index.pruned:
            yield from _claims(index, batch)


def _claims(index: Index, batch: Batch) -> Iterator[Violation]:
    """Check that each attempt was claimed once, in the order of the fences."""
    attempts = [attempt.attempt for attempt in index.attempts.get(batch.batch_id, ())]
    claimed = [event.attempt for event in index.batch_events.get(batch.batch_id, ()) if event.to_state == "writing"]
    if claimed != attempts:
        yield Violation(
            "fence",
            f"batch {batch.batch_id}",
            f"has {len(attempts)} attempts, and its history has claimed {len(claimed)}, or others",
        )


def winner(index: Index) -> Iterator[Violation]:
    for batch in index.found.batches:
        winners = [a.attempt for a in index.attempts.get(batch.batch_id, ()) if a.outcome == "published"]
        wanted = [batch.attempt] if batch.state in PUBLISHED else []
        if winners != wanted:
            yield Violation(
                "winner",
                f"batch {batch.batch_id}",
                f"is {batch.state}, its attempt {batch.attempt}; published attempts: {winners}",
            )


def open_attempt(index: Index) -> Iterator[Violation]:
    for batch in index.found.batches:
        for attempt in index.attempts.get(batch.batch_id, ()):
            writes = batch.state == "writing" and attempt.attempt == batch.attempt
            if attempt.ended == writes or attempt.ended != (attempt.outcome is not None):
                text = f"attempt {attempt.fence} of a batch that is {batch.state} " + (
                    f"has ended with {attempt.outcome}"
                    if attempt.ended
                    else f"has no end, and the outcome {attempt.outcome}"
                )
                yield Violation("open attempt", f"batch {batch.batch_id}", text)


def reserved(index: Index) -> Iterator[Violation]:
    for piece in index.found.ranges:
        batch = index.batches.get(piece.batch_id)
        if batch is None:
            continue
        given_back = batch.state == "abandoned" or index.was_rewound(batch.batch_id)
        if piece.reserves != (batch.kind in {"live", "backfill"} and not given_back):
            text = f"a {batch.kind} that is {batch.state} " + ("reserves" if piece.reserves else "does not reserve")
            yield Violation("reserved", f"batch {batch.batch_id}", f"{text} its offsets")


def reserved_twice(index: Index) -> Iterator[Violation]:
    for stream in index.found.streams:
        taken = [piece for piece in index.ranges.get(stream.stream_id, ()) if piece.reserves]
        taken.sort(key=lambda piece: (piece.start, piece.end))
        for left, right in pairwise(taken):
            if right.start < left.end:
                text = f"[{left.start}, {left.end}) by batch {left.batch_id}, [{right.start}, {right.end}) by batch {right.batch_id}"
                yield Violation("reserved twice", str(stream), text)
