"""Search an output topic for the records of attempts whose receipt the brokers may have forgotten. Reads committed records only.

Law: a batch whose records readers can see is never sent again, however long ago they were committed. Brokers forget groups without
members after `offsets.retention.minutes`, and scripts delete them at once. Each record names the attempt that has sent it, and a
transaction is visible as a whole: one record that is found proves the commit of its attempt.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, TopicCollection, TopicPartition
from confluent_kafka.admin import OffsetSpec

from tideline.domain.receipts import Receipt
from tideline.kafka.broker import topic_uuid
from tideline.kafka.connection import TIMEOUT_S, Connection
from tideline.kafka.records import LOOKING, Got, got
from tideline.ledger.intents import Intent

ATTEMPT = "tideline-attempt"
"""The header that says which attempt has sent an output record."""
_POLL_S = 1.0
_PATIENT_POLLS = 3 * TIMEOUT_S
"""How often in a row nothing may come: a reader of committed records waits for transactions of other producers."""
_AT_ONCE = 1_000


class HeldUpError(Exception):
    """A transaction of another producer is open, so readers of committed records do not see what lies behind it."""


@dataclass(frozen=True, slots=True)
class Log:
    """A topic as it is now."""

    topic_id: str
    starts: Mapping[int, int]
    ends: Mapping[int, int]
    """The high watermarks, by partition: what is open behind the last stable offset counts too."""

    def position(self) -> dict[str, Any]:
        """Return where the topic ends, as an intent stores it."""
        return {"topic_id": self.topic_id, "ends": {str(number): end for number, end in self.ends.items()}}


@dataclass(frozen=True, slots=True)
class Searched:
    """What a search has found."""

    receipt: Receipt | None
    missing: tuple[str, ...] = ()
    """What of the log was not there to be read any more. Empty if the search has seen everything."""


def log_of(connection: Connection, topic: str) -> Log:
    """Return the bounds of a topic that exists.

    Raises:
        RetryableError: The brokers did not answer.
    """
    asked = connection.admin.describe_topics(TopicCollection([topic]), request_timeout=TIMEOUT_S)
    described = connection.results(asked)[topic]
    places = [TopicPartition(topic, one.id) for one in described.partitions]

    def listed(spec: OffsetSpec) -> dict[int, int]:
        futures = connection.admin.list_offsets(
            dict.fromkeys(places, spec),
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=TIMEOUT_S,
        )
        return {place.partition: found.offset for place, found in connection.results(futures).items()}

    return Log(str(topic_uuid(described)), listed(OffsetSpec.earliest()), listed(OffsetSpec.latest()))


def searched(settings: Mapping[str, Any], topic: str, log: Log, sought: Sequence[Intent]) -> Searched:
    """Search a topic from where it ended when these attempts were about to commit. None of them can commit any more.

    Args:
        settings: The client's settings, with the isolation level.
        topic: Its name.
        log: The topic, looked at after the attempts were fenced.
        sought: The intents. One with a position in another incarnation of the topic has no record in this one.

    Raises:
        KafkaException: The brokers did not answer, or refused.
        HeldUpError: As it says.
    """
    here = {one.attempt: one for one in sought if one.position and one.position["topic_id"] == log.topic_id}
    ends = [{int(number): end for number, end in one.position["ends"].items()} for one in here.values() if one.position]
    if not ends:
        return Searched(None)
    # A partition that was added since has no end in the intent.
    wanted = {number: min(end.get(number, 0) for end in ends) for number in log.ends}
    begins = {number: max(first, log.starts[number]) for number, first in wanted.items()}
    known = {str(attempt).encode(): one for attempt, one in here.items()}
    for headers in _headers(settings, topic, begins, log.ends):
        found = known.get(dict(headers).get(ATTEMPT) or b"")
        if found is not None:
            return Searched(Receipt(fence=found.fence, attempt=found.attempt))
    gone = [
        f"partition {number} was to be read from offset {first}, and has [{log.starts[number]}, {log.ends[number]})"
        for number, first in sorted(wanted.items())
        if not log.starts[number] <= first <= log.ends[number]
    ]
    return Searched(None, tuple(gone))


def _headers(
    settings: Mapping[str, Any], topic: str, begins: Mapping[int, int], ends: Mapping[int, int]
) -> Iterator[list[tuple[str, bytes]]]:
    """Yield the headers of the committed records of these ranges."""
    waiting = {number for number, begin in begins.items() if begin < ends[number]}
    if not waiting:
        return
    consumer = Consumer({**settings, **LOOKING, "auto.offset.reset": "error"})
    try:
        consumer.assign([TopicPartition(topic, number, begins[number]) for number in sorted(waiting)])
        silent = 0
        while waiting:
            messages = consumer.consume(_AT_ONCE, timeout=_POLL_S)
            silent = 0 if any(message.error() is None for message in messages) else silent + 1
            if silent > _PATIENT_POLLS:
                raise HeldUpError(", ".join(f"{topic}/{number}" for number in sorted(waiting)))
            for message in messages:
                kind, number, offset = got(message), message.partition(), message.offset()
                if kind is Got.RECORD and offset < ends[number]:
                    yield message.headers() or []
                # The end of a partition is its last stable offset: it may lie before a transaction that is still open.
                if kind is not Got.NOTHING and offset >= ends[number] - (kind is Got.RECORD):
                    waiting.discard(number)
    finally:
        consumer.close()
