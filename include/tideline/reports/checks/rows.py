"""Compare the rows of an output with what the ledger has published: a receipt says that a commit happened, not that its rows are still there."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from tideline.declaration import PostgresSink
from tideline.declaration.pipelines import Pipeline
from tideline.domain.checks import Check, bad, listed, ok
from tideline.ledger import invariants, published_rows
from tideline.ledger.connection import Ledger
from tideline.ledger.published_rows import Published, Sent
from tideline.sinks import kinds

NEWEST = 20
"""So many of the newest batches are compared, unless all are asked for."""
_CHECK = "rows"
_WHY = "was it restored, emptied or changed by another program, or did the declaration name another one until lately?"


def of_table(session: Ledger, pipeline: Pipeline, *, most: int | None) -> Iterable[Check]:
    """Compare a table in the ledger's database. Of an upsert table only whether it has any row: which batch a row stems from depends on all others.

    Args:
        session: On one consistent snapshot, with the rights of the writer.
        pipeline: It has such a table.
        most: How many of the newest batches are compared; None for all.
    """
    sink = pipeline.table_sink
    ranges = published_rows.published(session, pipeline.name, None, most=most)
    if not ranges or not invariants.output_privileges(session, sink.table)["exists"]:
        return
    if sink.mode == "upsert":
        yield from _upserted(session, pipeline, sink, ranges)
        return
    wrong: dict[Published, int] = {}
    for part in published_rows.slices(ranges):
        wrong |= published_rows.found_otherwise(session, sink.table, part)
    yield _said(pipeline, sink.table, ranges, wrong)


def _upserted(session: Ledger, pipeline: Pipeline, sink: PostgresSink, ranges: Sequence[Published]) -> Iterable[Check]:
    n_written = sum(one.n_written for one in ranges)
    if pipeline.source.tombstones == "delete":
        return  # all keys may have been deleted
    if n_written and published_rows.is_empty(session, sink.table):
        yield bad(
            pipeline.name,
            _CHECK,
            f"{sink.table} has no row, and {n_written} records of its newest batches were written to it",
            f"{_WHY} Load it again: tideline replay {pipeline.name} --range ... --reason ...; see docs/operating.md#rows-that-are-gone",
        )
    else:
        yield ok(pipeline.name, _CHECK, f"{sink.table} has rows; which, cannot be compared for an upsert")


def of_ranges(pipeline: Pipeline, read: Callable[[], Sequence[Published]]) -> Iterable[Check]:
    """Compare an output outside of the ledger's database, if its rows can be counted by range. Yields nothing if not.

    Args:
        pipeline: The pipeline.
        read: Reads the ranges from the ledger. It is called again if some differ: a replay may have replaced their rows meanwhile.
    """
    ranges = read()
    wrong = kinds.of(pipeline).found_otherwise(pipeline, ranges) if ranges else None
    if wrong is None:
        return
    if wrong:
        still = {*read()}
        wrong = {one: n_found for one, n_found in wrong.items() if one in still}
    yield _said(pipeline, pipeline.sink.output, ranges, wrong)


def of_batches(pipeline: Pipeline, batches: Sequence[Sent]) -> Iterable[Check]:
    """Check that no records of published batches were deleted from an output, but by its own retention. Yields nothing if nothing tells.

    Args:
        pipeline: The pipeline.
        batches: The one that was committed last first.
    """
    gone = kinds.of(pipeline).deleted(pipeline, batches) if batches else None
    if gone is None:
        return
    if not gone:
        yield ok(
            pipeline.name,
            _CHECK,
            f"no records of {len(batches)} batches were deleted from {pipeline.sink.output} by hand",
        )
        return
    by_batch = sorted(gone.items(), key=lambda item: item[0].batch_id)
    texts = [f"batch {one.batch_id} ({one.n_rows} records): {why}" for one, why in by_batch]
    yield bad(
        pipeline.name,
        _CHECK,
        f"records of published batches were deleted from {pipeline.sink.output}, and not by its retention: {listed(texts)}",
        "was the topic truncated, or deleted and created again? If its readers still need the records, send each of these batches again: "
        f"tideline replay {pipeline.name} --batch {by_batch[0][0].batch_id} --reason ...; see docs/operating.md#rows-that-are-gone",
    )


def _said(pipeline: Pipeline, output: str, ranges: Sequence[Published], wrong: Mapping[Published, int]) -> Check:
    if not wrong:
        n_records, n_batches = sum(one.n_written for one in ranges), len({one.batch_id for one in ranges})
        return ok(
            pipeline.name, _CHECK, f"{output} holds the {n_records} records of {n_batches} batches that were compared"
        )
    by_batch: dict[int, list[Published]] = {}
    for one in wrong:
        by_batch.setdefault(one.batch_id, []).append(one)
    texts = (
        f"batch {batch_id} in {listed(parts, most=1)}: {sum(one.n_written for one in parts)} records were published, "
        f"{sum(wrong[one] for one in parts)} are there"
        for batch_id, parts in sorted(by_batch.items())
    )
    how = f"tideline replay {pipeline.name} --batch {min(by_batch)} --reason ..."
    return bad(
        pipeline.name,
        _CHECK,
        f"{output} does not hold what was published: {listed(texts)}",
        f"{_WHY} Load each of these batches again: {how}; see docs/operating.md#rows-that-are-gone",
    )
