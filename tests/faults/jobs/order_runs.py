"""Define what the processor of `orders` folds, by a loop of its own over what Kafka has."""

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

from faults.checker.facts import WRITTEN, Found, Stream, Truth
from faults.jobs import orders
from faults.plain_fold import Event, Runs

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def runs(truth: Truth) -> Runs:
    """Return the fold over the orders that become rows."""
    read: dict[int, list[Event]] = {}

    def events(_: Found, stream: Stream, pieces: Iterable[tuple[int, int]]) -> Iterator[Event]:
        if stream.stream_id not in read:
            read[stream.stream_id] = list(_events(truth, stream))
        wanted = list(pieces)
        return (one for one in read[stream.stream_id] if any(start <= one.offset < end for start, end in wanted))

    item, price = orders.COLUMNS.index("item"), orders.COLUMNS.index("price")
    return Runs(silence=orders.SILENCE, events=events, item=item, price=price)


def _events(truth: Truth, stream: Stream) -> Iterator[Event]:
    for record in truth.records(stream, stream.start_offset, truth.end(stream)):
        if WRITTEN in truth.expected(stream, record).fates:
            key = f"[{stream.partition * 100 + record.offset % 10}]"
            number = json.loads(record.value or b"")["id"]
            yield Event(key, number, record.offset, _EPOCH + timedelta(seconds=record.offset))
