"""A truth that reads Kafka itself.

It uses another client than the code that is checked, and reads as any reader of committed records does.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from uuid import UUID

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from faults.checker.facts import Expected, Record, Stream, Truth

AT_ONCE, WAIT_SECONDS = 5_000, 0.05
"""A fetch returns after this many messages or this many seconds: a reader at the end of the log must not wait long."""
SILENT_SECONDS = 120
ANSWER_SECONDS = 120


class KafkaTruth:
    """Records as the broker has them now. Memory use does not grow with their number.

    Args:
        bootstrap: Address of the broker.
        expected: Returns the possible fates of a record.
        remembered: Knows what the broker no longer has: records that retention has deleted, topics that were created again. Without it such
            records count as never written, and their rows and rejects are reported as invented.
    """

    def __init__(
        self, bootstrap: str, expected: Callable[[Stream, Record], Expected], remembered: Truth | None = None
    ) -> None:
        self._bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._expected = expected
        self._remembered = remembered

    def expected(self, stream: Stream, record: Record) -> Expected:
        return self._expected(stream, record)

    def records(self, stream: Stream, start: int, end: int) -> Iterator[Record]:
        first = self._offset(stream, OffsetSpec.earliest()) if self._is_there(stream) else end
        if start < first and self._remembered is not None:
            yield from self._remembered.records(stream, start, min(first, end))
        if max(start, first) < end:
            yield from self._read(stream, max(start, first), end)

    def end(self, stream: Stream) -> int:
        if self._is_there(stream):
            return self._offset(stream, OffsetSpec.latest())
        return 0 if self._remembered is None else self._remembered.end(stream)

    def _is_there(self, stream: Stream) -> bool:
        """Return whether the topic still has the id that the stream follows."""
        asked = self._admin.describe_topics(TopicCollection([stream.topic]), request_timeout=ANSWER_SECONDS)
        try:
            found = asked[stream.topic].result(ANSWER_SECONDS).topic_id
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return False
            raise
        halves = found.get_most_significant_bits(), found.get_least_significant_bits()
        return stream.topic_id == UUID(bytes=b"".join(half.to_bytes(8, signed=half < 0) for half in halves))

    def _offset(self, stream: Stream, spec: OffsetSpec) -> int:
        place = TopicPartition(stream.topic, stream.partition)
        asked = self._admin.list_offsets(
            {place: spec}, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=ANSWER_SECONDS
        )
        return int(asked[place].result(ANSWER_SECONDS).offset)

    def _read(self, stream: Stream, start: int, end: int) -> Iterator[Record]:
        for message in self._messages(TopicPartition(stream.topic, stream.partition, start)):
            offset = message.offset()
            if offset < end:
                headers = tuple(message.headers() or ()) or None
                yield Record(offset, message.timestamp()[1], message.key(), message.value(), headers)
            if offset >= end - 1:
                return

    def _messages(self, place: TopicPartition) -> Iterator[Message]:
        """Yield messages up to the last stable offset."""
        with closing(self._consumer()) as consumer:
            consumer.assign([place])
            heard = time.monotonic()
            while time.monotonic() - heard < SILENT_SECONDS:
                messages = consumer.consume(AT_ONCE, timeout=WAIT_SECONDS)
                for message in messages:
                    error = message.error()
                    if error is None:
                        yield message
                    elif error.code() == KafkaError._PARTITION_EOF:
                        return
                    else:
                        raise KafkaException(error)
                if messages:
                    heard = time.monotonic()
        raise TimeoutError(f"{place.topic}/{place.partition}: the broker has been silent for {SILENT_SECONDS} s")

    def _consumer(self) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "truth",  # required by the client, and never used
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "queued.max.messages.kbytes": 32_768,
            }
        )
