"""Compares the fate of one record with what the transform prescribes."""

import json
from base64 import b64decode
from collections.abc import Iterator, Sequence
from typing import Any

from faults.checker.facts import FILTERED, REJECTED, WRITTEN, Expected, Headers, Record, Reject, Row, Stream, Violation


def judge_fate(
    stream: Stream, record: Record, rows: Sequence[Row], rejects: Sequence[Reject], expected: Expected
) -> Iterator[Violation]:
    """Yield violations for a record at an offset that a batch owns."""
    where = f"{stream} offset {record.offset}"
    if len(rejects) > 1 or (rows and rejects):
        yield Violation("doubled", where, f"{len(rows)} rows and {len(rejects)} rejects of one record")
        return
    fate = WRITTEN if rows else REJECTED if rejects else FILTERED
    if fate not in expected.fates:
        wanted = " or ".join(sorted(expected.fates))
        if fate == FILTERED:
            yield Violation("lost", where, f"neither in the output nor in the rejects, and should have been {wanted}")
        else:
            yield Violation("wrong fate", where, f"was {fate}, and should have been {wanted}")
    elif fate == WRITTEN:
        yield from _compare_rows(where, [row.values for row in rows], list(expected.rows))
    elif fate == REJECTED:
        yield from compare_reject(where, record, rejects[0])


def _compare_rows(
    where: str, rows: Sequence[tuple[Any, ...]], expected: Sequence[tuple[Any, ...]]
) -> Iterator[Violation]:
    """Compare rows with `==` and without hashes: a value may be a list. One record has few rows."""
    left = [_comparable(row) for row in expected]
    strange = []
    for row in map(_comparable, rows):
        if row in left:
            left.remove(row)
        else:
            strange.append(row)
    if strange and not left and all(row in map(_comparable, expected) for row in strange):
        yield Violation(
            "doubled", where, f"{len(rows)} rows, {len(expected)} of them expected: {strange[0]!r} is one too many"
        )
    elif strange:
        yield Violation("altered", where, f"row {strange[0]!r}, expected {left or expected!r}")
    elif left:
        yield Violation("lost", where, f"{len(left)} of its {len(expected)} rows: {left[0]!r}")


def _comparable(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Make not-a-number equal to itself."""
    return tuple("NaN" if value != value else value for value in row)  # noqa: PLR0124 - only NaN differs from itself


def compare_reject(where: str, record: Record, reject: Reject) -> Iterator[Violation]:
    """Yield violations for a reject that does not have the bytes of its record."""
    for name in ("key", "value"):
        kept, was = getattr(reject, name), getattr(record, name)
        if kept != was:
            yield Violation("altered", where, f"the reject's {name} is {_short(kept)}, Kafka had {_short(was)}")
    if _milliseconds(reject.timestamp_ms) != _milliseconds(record.timestamp_ms):
        text = f"the reject's timestamp is {reject.timestamp_ms}, Kafka had {record.timestamp_ms}"
        yield Violation("altered", where, text)
    if kept_headers(reject.headers) != (record.headers or ()):
        text = f"the reject's headers are {_short(reject.headers)}, Kafka had {_short(record.headers)}"
        yield Violation("altered", where, text)


def _milliseconds(timestamp: int | None) -> int:
    """Replace None with -1, which is Kafka's value for a record without a timestamp."""
    return -1 if timestamp is None else timestamp


def kept_headers(kept: bytes | None) -> Headers | None:
    """Decode headers to the form that Kafka had; None for bytes that are not valid JSON.

    The JSON leaves out a value that is null.
    """
    if kept is None:
        return ()
    try:
        pairs = [(header["key"], header.get("value")) for header in json.loads(kept)]
        return tuple((key, None if value is None else b64decode(value, validate=True)) for key, value in pairs)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}... ({len(text)} characters)"
