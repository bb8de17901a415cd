"""The statistics of a Parquet file, as the log of a Delta table keeps them. Readers leave files out by them, so a bound must never be too narrow."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow.parquet as pq

_LONGEST_TEXT = 64
"""Longer texts have no bounds: they would make the log large."""
_MILLISECOND = timedelta(milliseconds=1)


def statistics(file: pq.FileMetaData) -> dict[str, Any]:
    """Return numbers of rows and nulls, and the bounds of columns of integers, short texts, dates and timestamps.

    Other columns have no bounds. Those of decimals lose digits in JSON, and those of floats leave NaN out.
    """
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for number in range(file.num_columns):
        chunks = [file.row_group(group).column(number) for group in range(file.num_row_groups)]
        path = file.schema.column(number).path
        if "." in path or not chunks or not all(chunk.is_stats_set for chunk in chunks):
            continue
        found = [chunk.statistics for chunk in chunks]
        if all(part.has_null_count for part in found):
            nulls[path] = sum(part.null_count for part in found)
        bounds = _bounds(found)
        if bounds is not None:
            least[path], most[path] = bounds
    return {"numRecords": file.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls}


def _bounds(found: Sequence[Any]) -> tuple[Any, Any] | None:
    """Return the lowest and the highest value; None if they are not known or cannot be written exactly."""
    with_values = [part for part in found if part.num_values]
    if not with_values or not all(part.has_min_max for part in with_values):
        return None
    try:
        low, high = min(part.min for part in with_values), max(part.max for part in with_values)
    except (OverflowError, ValueError):
        return None  # a timestamp that Python has no date for
    return _written(low, high) if type(low) is type(high) else None


def _written(low: Any, high: Any) -> tuple[Any, Any] | None:
    match low:
        case bool():
            return None
        case datetime():
            return _timestamps(low, high)
        case date():
            return low.isoformat(), high.isoformat()
        case str() if len(low) > _LONGEST_TEXT or len(high) > _LONGEST_TEXT:
            return None
    return (low, high) if isinstance(low, int | str) else None


def _timestamps(low: datetime, high: datetime) -> tuple[str, str] | None:
    """Return bounds in milliseconds, the upper one rounded up."""
    if low.tzinfo is None:
        return None
    try:
        return _text(low), _text(high + _MILLISECOND if high.microsecond % 1000 else high)
    except OverflowError:
        return None


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
