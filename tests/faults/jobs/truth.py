"""What Kafka holds, read as any consumer of committed records reads it, and what the pipeline must make of it."""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from faults.checker.facts import Expected, Record, Stream
from faults.jobs import orders

_FETCHED = 10_000
_LOOK_S, _SILENCE_S = 0.2, 60


class KafkaTruth:
    """The truth of one topic that nobody has deleted anything from; records pass in flat memory.

    Args:
        bootstrap: Where the broker is.
    """

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self.shown = 0
        """Records that were asked for."""

    def records(self, stream: Stream, start: int, end: int) -> Iterator[Record]:
        """The visible records of [start, end), ascending."""
        with closing(self._consumer()) as consumer:
            consumer.assign([TopicPartition(stream.topic, stream.partition, start)])
            for message in self._until_the_end(consumer, stream):
                if message.offset() >= end:
                    return
                self.shown += 1
                yield Record(
                    offset=message.offset(),
                    timestamp_ms=message.timestamp()[1],
                    key=message.key(),
                    value=message.value(),
                    headers=_headers(message.headers()),
                )
                if message.offset() == end - 1:
                    return

    def _until_the_end(self, consumer: Consumer, stream: Stream) -> Iterator[Message]:
        heard = time.monotonic()
        while True:
            messages = consumer.consume(_FETCHED, timeout=_LOOK_S)
            if messages:
                heard = time.monotonic()
            assert time.monotonic() < heard + _SILENCE_S, f"{stream}: the broker gave nothing for {_SILENCE_S} s"
            for message in messages:
                if message.error():
                    assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                    return
                yield message

    def expected(self, stream: Stream, record: Record) -> Expected:
        """What must become of a record."""
        return orders.expected(record)

    def end(self, stream: Stream) -> int:
        """Where the log ends for a reader of committed records; no transaction is open."""
        with closing(self._consumer()) as consumer:
            return consumer.get_watermark_offsets(TopicPartition(stream.topic, stream.partition), timeout=_SILENCE_S)[1]

    def _consumer(self) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "truth",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
            }
        )


def _headers(found: Sequence[tuple[str, bytes | None]] | None) -> tuple[tuple[str, bytes | None], ...] | None:
    return tuple(found) if found else None
