"""Requests for ranges, and what was planned for them."""

from collections.abc import Iterable

from ledger_queries import query
from planners import ranges_of
from tideline.declaration.pipelines import Pipeline
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import NamedRange, Ranges
from tideline.ledger.connection import Ledger


def piece(pipeline: Pipeline, start: int, end: int, partition: int = 0) -> NamedRange:
    assert pipeline.source.topics is not None  # no pattern
    return NamedRange(pipeline.source.topics[0], partition, OffsetRange(start, end))


def these(pipeline: Pipeline, *bounds: tuple[int, int] | tuple[int, int, int], replace: bool = False) -> Ranges:
    return Ranges(ranges=tuple(piece(pipeline, *bound) for bound in bounds), replace=replace)


def kinds(ledger: Ledger, batch_ids: Iterable[int]) -> list[tuple[str, dict[int, tuple[int, int]]]]:
    """Return (kind, ranges) of each batch."""
    found = [query(ledger, "SELECT kind::text FROM tideline.batch WHERE batch_id = %s", n)[0][0] for n in batch_ids]
    return [(kind, ranges_of(ledger, n)) for kind, n in zip(found, batch_ids, strict=True)]
