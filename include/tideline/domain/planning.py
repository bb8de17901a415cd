"""Cut free offsets into batches. Pure functions: the same input gives the same batches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tideline.domain.offsets import OffsetRange

_FIRST_GUESS_BYTES = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanLimits:
    """How much one batch and one run may take."""

    batch_records: int
    """The maximum of offsets in one batch, above 0. Without compaction an offset is a record."""
    run_batches: int
    """The maximum of batches planned by one run, above 0. The rest waits for the next run."""


def cut(free: Mapping[int, Sequence[OffsetRange]], limits: PlanLimits) -> list[dict[int, OffsetRange]]:
    """Cut the free ranges of each stream (by stream id) into batches, with at most one range per stream and batch.

    Every offset of `free` is in at most one batch, and in exactly one unless `run_batches` was reached. Within a stream
    the batches ascend. If a batch cannot hold everything, it takes the same share from every stream, so that one long
    stream does not starve the others.
    """
    rest = {stream_id: list(ranges) for stream_id, ranges in sorted(free.items()) if ranges}
    batches: list[dict[int, OffsetRange]] = []
    while rest and len(batches) < limits.run_batches:
        # If a batch has fewer records than there are streams, they take turns. If size decided, the longest would never have a turn.
        turn = list(rest)[: limits.batch_records]
        sizes = {stream_id: len(rest[stream_id][0]) for stream_id in turn}
        batch = {}
        for stream_id, share in _shares(sizes, limits.batch_records).items():
            taken = rest[stream_id][0].first(share)
            batch[stream_id] = taken
            _take(rest, stream_id, taken)
        batches.append(batch)
    return batches


def records_for(batch_records: int, batch_bytes: int | None, average_bytes: float | None) -> int:
    """Return how many offsets a batch may take to stay within both limits: at least one. Bytes are estimated from past records.

    Args:
        batch_records: The declared limit.
        batch_bytes: The declared target, above 0, or None if there is none.
        average_bytes: The average size of the records loaded before, or None if there were none: then 1 KiB is assumed.
    """
    if batch_bytes is None:
        return batch_records
    average = _FIRST_GUESS_BYTES if average_bytes is None else average_bytes
    # An average below one byte comes from tombstones and empty records.
    return min(batch_records, max(1, int(batch_bytes / max(average, 1))))


def newest(free: Mapping[int, Sequence[OffsetRange]], count: int) -> dict[int, list[OffsetRange]]:
    """Return the last free ranges of each stream, `count` offsets in all. Leave out streams that get none.

    Short streams stay whole and the others get an equal share, so that a fast-growing stream does not push the others out.
    """
    sizes = {stream_id: sum(map(len, ranges)) for stream_id, ranges in free.items()}
    shares = _shares({stream_id: size for stream_id, size in sizes.items() if size}, count)
    return {stream_id: _last(free[stream_id], share) for stream_id, share in shares.items() if share}


def _last(ranges: Sequence[OffsetRange], count: int) -> list[OffsetRange]:
    """Return the last `count` offsets of ascending ranges."""
    found: list[OffsetRange] = []
    for piece in reversed(ranges):
        if count > 0:
            found.append(OffsetRange(max(piece.start, piece.end - count), piece.end))
            count -= len(piece)
    return found[::-1]


def _take(rest: dict[int, list[OffsetRange]], stream_id: int, taken: OffsetRange) -> None:
    """Remove `taken` from the stream's first range, and move the stream to the end of the queue."""
    whole, *others = rest.pop(stream_id)
    left = [OffsetRange(taken.end, whole.end)] if taken.end < whole.end else []
    if left + others:
        rest[stream_id] = left + others


def _shares(sizes: Mapping[int, int], limit: int) -> dict[int, int]:
    """Return how much of each size fits into `limit`: small ones whole, the others equally. Some get 0 if `limit` is below their number."""
    shares: dict[int, int] = {}
    budget = limit
    by_size = sorted(sizes.items(), key=lambda item: (item[1], item[0]))
    for position, (stream_id, size) in enumerate(by_size):
        shares[stream_id] = min(size, -(-budget // (len(by_size) - position)))
        budget -= shares[stream_id]
    return dict(sorted(shares.items()))
