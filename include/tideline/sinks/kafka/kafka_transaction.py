"""One transactional producer, and what its group has committed: the two things with which a version is compared and set.

A producer that initialises a transactional id ends the transaction of every earlier producer of that id, and no such producer can
commit any more. So a version that is read after that stays as it is, until this producer commits or a later one begins.
"""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from tenacity import Retrying, retry_if_exception, stop_after_attempt, stop_after_delay, wait_fixed

from tideline.kafka.connection import TIMEOUT_S
from tideline.kafka.records import LOOKING

Headers = list[tuple[str, bytes | None]]
_SILENT = logging.getLogger(f"{__name__}.client")
_SILENT.disabled = True
_PRODUCING = {
    # Java's default partitioner: a key goes to the partition where every other client puts it.
    "partitioner": "murmur2_random",
    "compression.type": "lz4",
    # Each attempt asks whether the topic exists. One that is deleted after that must not come back by our asking for it.
    "allow.auto.create.topics": False,
    "queue.buffering.max.messages": 100_000,
    # The client's own log is off: errors are raised, with what they mean. It prints fatal ones whatever its level is.
    "log_level": 0,
    "logger": _SILENT,
}
_QUEUE_BYTES = 32 << 20
"""Bounds memory. The client's default is 1 GiB."""
_AT_ONCE_BYTES = 1_000_000
"""The size of a request that is worth sending. A larger record is sent alone."""
_ENDED = {
    KafkaError._FENCED,  # noqa: SLF001 - public: names of librdkafka's own errors begin with _
    KafkaError._FATAL,  # noqa: SLF001 - as above
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.INVALID_PRODUCER_ID_MAPPING,
    KafkaError.INVALID_TXN_STATE,
}
_ABOVE_ANY_END = 10**15
"""What the stored offset of a version is counted from. A partition never has so many records, so monitors of consumer lag do not take the group
of a batch for a consumer that is behind. An offset below it is a version too, of a release before: an open batch may have one."""
_TRIES = 3
_MOVING = {
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.UNSTABLE_OFFSET_COMMIT,
}
"""The group's coordinator moves, or a transaction is being ended: it answers in a moment."""
_PAUSE_S = 0.1


class Message(NamedTuple):
    """One record to produce."""

    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """What a group has committed as the offset of the topic's partition 0, counted from `_ABOVE_ANY_END`."""

    number: int
    metadata: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionTarget:
    """Where a transaction writes, and the name that is its transactional id and the group of its version."""

    settings: dict[str, Any] = field(repr=False)  # holds secrets
    topic: str
    name: str
    seconds: int
    """The time after which the brokers abort a transaction."""
    max_bytes: int = 1_000_000
    """The largest batch of records that the topic takes."""


def committed(place: TransactionTarget) -> Version | None:
    """Return the version that the group has committed; None if it has none. Waits for a transaction whose markers are being written.

    Raises:
        KafkaException: The brokers did not answer within about 10 seconds, or the user may not read the group.
    """
    refused: list[KafkaError] = []
    consumer = Consumer({**place.settings, **LOOKING, "group.id": place.name, "error_cb": refused.append})
    deadline = time.monotonic() + TIMEOUT_S

    def once() -> Version | None:
        try:
            return _committed(consumer, place.topic, deadline - time.monotonic())
        except KafkaException:
            _raise_if_forbidden(consumer, refused)
            raise

    again = Retrying(
        retry=retry_if_exception(lambda error: isinstance(error, KafkaException) and error.args[0].code() in _MOVING),
        wait=wait_fixed(_PAUSE_S),
        stop=stop_after_delay(TIMEOUT_S),
        reraise=True,
    )
    try:
        return again(once)
    finally:
        consumer.close()


def _raise_if_forbidden(consumer: Consumer, refused: list[KafkaError]) -> None:
    """Raise the error of a group that the user may not read: the client itself only waits until its time is up."""
    message = consumer.poll(0)  # hands out what it knows, to the callback or as a message
    found = [*refused, *([message.error()] if message is not None and message.error() else [])]
    for error in found:
        if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            raise KafkaException(error)


def _committed(consumer: Consumer, topic: str, seconds: float) -> Version | None:
    # With the partition named. A listing of the whole group leaves an unstable offset out without saying so.
    [found] = consumer.committed([TopicPartition(topic, 0)], timeout=seconds)
    if found.error:
        raise KafkaException(found.error)
    if found.offset < 0:
        return None
    number = found.offset - _ABOVE_ANY_END if found.offset >= _ABOVE_ANY_END else found.offset
    return Version(number=number, metadata=found.metadata or "")


class Transaction:
    """The one transaction of a producer. Entering ends every earlier producer of the same name; leaving without `commit` aborts it.

    Args:
        place: Where it writes.

    Raises:
        KafkaException: The brokers did not answer or refused, or a later producer has ended this one. Every method may raise it.
    """

    def __init__(self, place: TransactionTarget) -> None:
        self._place = place
        self._open = False
        self._producer = Producer(
            {
                **{name: value for name, value in place.settings.items() if name != "isolation.level"},
                **_PRODUCING,
                "transactional.id": place.name,
                "transaction.timeout.ms": place.seconds * 1000,
                "message.max.bytes": place.max_bytes,
                "batch.size": min(place.max_bytes, _AT_ONCE_BYTES),
                # A record that is larger than the whole queue never gets into it.
                "queue.buffering.max.kbytes": (max(_QUEUE_BYTES, 2 * place.max_bytes) + 1023) // 1024,
            }
        )

    def __enter__(self) -> Self:
        try:
            self._again_if_it_may(lambda: self._producer.init_transactions(TIMEOUT_S))
        except BaseException:
            del self._producer
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._open:
                self._producer.abort_transaction(TIMEOUT_S)
        except KafkaException:
            pass  # ended by a later producer, or the brokers do not answer: then they abort it when its time is up
        finally:
            del self._producer  # not `close`, which waits for brokers that do not answer, and warns

    def send(self, messages: Iterable[Message]) -> int:
        """Begin the transaction and produce all messages, in order. Return how many they were.

        Raises:
            BaseException: Whatever the iterator raises.
        """
        self._begin()
        sent = 0
        for message in messages:
            while True:
                try:
                    self._producer.produce(
                        self._place.topic, message.value, message.key, headers=message.headers
                    )  # fails at once if the transaction has failed
                    break
                except BufferError as error:  # the queue is full: wait until the brokers have taken some
                    if not len(self._producer):
                        raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)) from error
                    self._producer.poll(0.1)
            sent += 1
        return sent

    def commit(self, version: Version) -> None:
        """Commit what was sent, together with the version. Call it once.

        Raises:
            KafkaException: It was not committed; or, if the brokers do not answer, it may have been.
        """
        self._begin()
        group = Consumer({**self._place.settings, **LOOKING, "group.id": self._place.name})
        try:
            stored = _ABOVE_ANY_END + version.number
            offset = TopicPartition(self._place.topic, 0, stored, version.metadata)
            metadata = group.consumer_group_metadata()
            self._again_if_it_may(lambda: self._producer.send_offsets_to_transaction([offset], metadata, TIMEOUT_S))
        finally:
            group.close()
        self._again_if_it_may(lambda: self._producer.commit_transaction(self._place.seconds))
        self._open = False

    @staticmethod
    def _again_if_it_may(step: Callable[[], object]) -> None:
        """Call a step, and call it again as long as the client says that this may help."""
        may_help = retry_if_exception(lambda error: isinstance(error, KafkaException) and error.args[0].retriable())
        Retrying(retry=may_help, stop=stop_after_attempt(_TRIES), reraise=True)(step)

    def _begin(self) -> None:
        if not self._open:
            self._producer.begin_transaction()
            self._open = True


def has_been_ended(error: KafkaException) -> bool:
    """Return whether a later producer of the same name, or the brokers themselves, have ended the transaction."""
    cause: KafkaError = error.args[0]
    return cause.code() in _ENDED
