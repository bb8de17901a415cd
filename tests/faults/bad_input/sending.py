"""Sends records to a topic, and keeps the place that the broker gave to each."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka import Message, Producer

from faults.bad_input import wire
from faults.bad_input.fates import Case
from faults.checker.facts import Record

PARTITIONS = 3
CONFIG = {
    "max.message.bytes": "20000000",
    "retention.ms": "-1",
    # Records with very different timestamps are next to each other: the broker must accept each, and none may begin a new segment.
    "message.timestamp.before.max.ms": str(2**63 - 1),
    "message.timestamp.after.max.ms": str(2**63 - 1),
    "segment.ms": str(2**63 - 1),
}
PRODUCER = {
    "message.max.bytes": 20_000_000,
    "linger.ms": 20,
    "queue.buffering.max.messages": 1_000_000,
    "queue.buffering.max.kbytes": 1_000_000,
}
BY_HAND_AT_ONCE = 50
A_MOMENT = 1_800_000_000_000
"""Timestamp of records that are built by hand and have none."""

FIRST_UNCHANGED = -2_208_988_800_000
"""The year 1900. Spark would change an earlier timestamp, so such a record would not be kept unchanged."""
LAST_OF_SPARK = (2**63 - 1) // 1000
"""In microseconds, a later one is too large for 64 bits."""

Place = tuple[int, int]
"""Partition and offset."""


@dataclass(frozen=True, slots=True)
class Sent:
    """The record at one place."""

    name: str
    """Of its class."""
    case: Case
    record: Record
    """The record as any reader sees it."""


class Sending:
    """Sends to one topic; `places` is complete after `flush`."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": bootstrap, **PRODUCER})
        self._by_hand: dict[int, list[tuple[str, Case]]] = defaultdict(list)
        self.places: dict[Place, Sent] = {}

    def send(self, partition: int, name: str, case: Case) -> None:
        """Send a record with the client, or collect it for a batch that is built by hand."""
        if not case.by_hand:
            self._produce(partition, name, case)
            return
        self._by_hand[partition].append((name, case))
        if len(self._by_hand[partition]) == BY_HAND_AT_ONCE:
            self._send_by_hand(partition)

    def flush(self) -> None:
        """Send what is collected and wait until everything is acknowledged."""
        for partition in list(self._by_hand):
            self._send_by_hand(partition)
        assert self._producer.flush(120) == 0

    def _produce(self, partition: int, name: str, case: Case) -> None:
        def acknowledge(error: object, message: Message) -> None:
            assert error is None, (name, error)
            self._keep(name, case, message.partition(), message.offset(), message.timestamp()[1])

        extra = {} if case.timestamp_ms is None else {"timestamp": case.timestamp_ms}
        headers = [(key.decode(), content) for key, content in case.headers]
        self._producer.produce(
            self._topic, case.value, case.key, partition, headers=headers, on_delivery=acknowledge, **extra
        )
        self._producer.poll(0)

    def _send_by_hand(self, partition: int) -> None:
        cases = self._by_hand.pop(partition)
        timestamps = [A_MOMENT if case.timestamp_ms is None else case.timestamp_ms for _, case in cases]
        records = [
            (case.key, case.value, case.headers, moment) for (_, case), moment in zip(cases, timestamps, strict=True)
        ]
        first = wire.produce(self._bootstrap, self._topic, partition, records)
        for number, ((name, case), moment) in enumerate(zip(cases, timestamps, strict=True)):
            self._keep(name, case, partition, first + number, moment)

    def _keep(self, name: str, case: Case, partition: int, offset: int, timestamp_ms: int) -> None:
        headers = tuple((key.decode(errors="replace"), content) for key, content in case.headers)
        kept_ms = timestamp_ms if FIRST_UNCHANGED <= timestamp_ms <= LAST_OF_SPARK else None
        record = Record(offset, kept_ms, case.key, case.value, headers or None)
        self.places[partition, offset] = Sent(name, case, record)


def send(bootstrap: str, topic: str, cases: Iterable[tuple[str, Case]]) -> dict[Place, Sent]:
    """Send all records, over the partitions in turn; return them by place."""
    sending = Sending(bootstrap, topic)
    for number, (name, case) in enumerate(cases):
        sending.send(number % PARTITIONS, name, case)
    sending.flush()
    return sending.places
