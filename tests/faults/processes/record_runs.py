"""Define what the processor of `records.STATEFUL_TRANSFORM` folds, by a loop of its own."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

from faults import records
from faults.checker.facts import Found, Stream
from faults.plain_fold import Event, Runs


def _events(found: Found, stream: Stream, pieces: Iterable[tuple[int, int]]) -> Iterator[Event]:
    rejected = {reject.offset for reject in found.rejects(stream)}
    place = records.incarnation_of(stream.topic_id), stream.partition
    for offset in (offset for piece in pieces for offset in range(*piece)):
        if records.is_folded(*place, offset, rejected=offset in rejected):
            number = (place[0] * 100 + place[1]) * 1_000_000 + offset
            at = datetime.fromtimestamp(records.timestamp_ms(*place, offset) / 1000, UTC)
            yield Event(f"[{number // 1_000_000 * 10 + number % 3}]", number, offset, at)


RUNS = Runs(
    silence=timedelta(minutes=4), events=_events, item=records.OUTPUT.index("item"), price=records.OUTPUT.index("price")
)
