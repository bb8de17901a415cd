"""Compares Kafka, output, rejects and coverage offset by offset; memory use does not grow with the number of records."""

from collections.abc import Iterator, Sequence

from faults.checker import outside
from faults.checker.facts import WRITTEN, Coverage, Record, Reject, Row, Stream, Truth, Violation
from faults.checker.index import Index
from faults.checker.record_fate import judge_fate
from faults.checker.tallies import Tally, miscounts

END = 2**63
"""Behind every offset."""
NO_RECORD, NO_ROW, NO_REJECT = Record(END), Row(END, 0), Reject(END, 0)

Place = tuple[int, Record | None, list[Row], list[Reject]]
"""The records, rows and rejects at one offset."""


def records(index: Index, truth: Truth) -> Iterator[Violation]:
    """Check every stream, from its first covered offset to the last. Those in which a batch is committed outside and not
    yet published are left out."""
    for topic_id, partition in index.found.strangers:
        yield Violation(
            "invented",
            f"partition {partition} of topic {topic_id}",
            "the output has rows of it, and no stream follows it",
        )
    for row in index.found.foreign:
        yield Violation(
            "foreign",
            f"partition {row.partition} of topic {row.topic_id} offset {row.offset}",
            f"a row of batch {row.batch_id} of pipeline {row.pipeline}, which does not own the offset",
        )
    left_out = outside.moving(index)
    for stream in index.found.streams:
        if stream.stream_id not in left_out:
            yield from _of_stream(index, truth, stream)


def _of_stream(index: Index, truth: Truth, stream: Stream) -> Iterator[Violation]:
    coverage = index.coverage.get(stream.stream_id, ())
    start = min([stream.start_offset, *(piece.start for piece in coverage[:1])])
    end = max([stream.next_offset, *(piece.end for piece in coverage)])
    seen = truth.records(stream, start, end) if start < end else iter(())
    tallies: dict[int, Tally] = {}
    pieces = iter(coverage)
    piece = beyond = Coverage(stream.stream_id, END, END)
    piece, tally = next(pieces, beyond), Tally()
    for offset, record, rows, rejects in places(seen, index.found.rows(stream), index.found.rejects(stream)):
        while piece.end <= offset:
            piece = next(pieces, beyond)
        owner = piece.batch_id if piece.start <= offset else None
        if owner is not None:
            if owner != tally.batch_id:
                tally = tallies.setdefault(owner, Tally(owner))
            tally.n_records += record is not None
            tally.n_written += bool(rows)
            tally.n_rejected += bool(rejects)
            if record is not None and len(rows) == 1 and not rejects and rows[0].batch_id == owner:
                expected = truth.expected(stream, record)
                if WRITTEN in expected.fates and expected.rows == (rows[0].values,):
                    continue  # the usual case
        yield from _owned_as_coverage_says(
            index, stream, offset, owner, [*rows, *rejects], invented=record is None and start <= offset < end
        )
        if record is not None and owner is not None:
            yield from judge_fate(stream, record, rows, rejects, truth.expected(stream, record))
    yield from miscounts(index, stream, tallies)


def _owned_as_coverage_says(
    index: Index, stream: Stream, offset: int, owner: int | None, things: Sequence[Row | Reject], *, invented: bool
) -> Iterator[Violation]:
    for thing in things:
        what = "a row" if isinstance(thing, Row) else "a reject"
        where = f"{stream} offset {offset}"
        if not index.is_published(thing.batch_id):
            batch = index.batches.get(thing.batch_id)
            state = batch.state if batch else "not in the ledger"
            yield Violation("unpublished", where, f"{what} of batch {thing.batch_id}, which is {state}")
        elif invented:
            yield Violation("invented", where, f"{what} of batch {thing.batch_id}, and Kafka has no record there")
        elif thing.batch_id != owner:
            text = f"{what} of batch {thing.batch_id}, and " + (
                f"batch {owner} owns it" if owner else "no batch owns it"
            )
            yield Violation("out of place", where, text)


def places(seen: Iterator[Record], rows: Iterator[Row], rejects: Iterator[Reject]) -> Iterator[Place]:
    """Merge three ascending sequences into one.

    Raises:
        ValueError: One of them is not in ascending order, so that any result would be wrong.
    """
    record, row, reject = next(seen, NO_RECORD), next(rows, NO_ROW), next(rejects, NO_REJECT)
    last = -1
    while (offset := min(record.offset, row.offset, reject.offset)) < END:
        if offset <= last:
            raise ValueError(f"offset {offset} of records, rows or rejects comes after {last}")
        last = offset
        here: Record | None = None
        if record.offset == offset:
            here, record = record, next(seen, NO_RECORD)
        rows_here = []
        while row.offset == offset:
            rows_here.append(row)
            row = next(rows, NO_ROW)
        rejects_here = []
        while reject.offset == offset:
            rejects_here.append(reject)
            reject = next(rejects, NO_REJECT)
        yield offset, here, rows_here, rejects_here
