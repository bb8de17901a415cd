"""Reads single records: their offset, their timestamp and their leader epoch, never their keys or values.

Used only where a listing of offsets is not enough: when a record is dated in the future, and when a leader was elected
since the last look.
"""

import time
from collections.abc import Mapping
from enum import Enum
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tideline.domain.facts import Place, RecordFacts
from tideline.errors import FatalError, RetryableError, TidelineError
from tideline.kafka import passing
from tideline.kafka.passing import PassingError

LOOKING = {
    # The consumer joins no group and commits nothing, but the client requires a group id.
    "group.id": "tideline.look",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    # At the end of a log the broker waits for more records, by default for half a second.
    "fetch.wait.max.ms": 10,
    "log_level": 0,
}
"""The settings of every consumer that only looks at records, in addition to those of the connection."""
UNCOMMITTED = {"isolation.level": "read_uncommitted"}
"""The setting of a consumer that also looks at records of open transactions."""
_READING = {
    **LOOKING,
    # Fail if the requested offset does not exist, and never continue at another one.
    "auto.offset.reset": "error",
    # Only a few records are needed, so the consumer must not fetch ahead.
    "queued.min.messages": 1,
    "fetch.message.max.bytes": 65_536,
    # With one record in its queue the client pauses before the next fetch, by default for a second. A search for a time makes about ten such reads.
    "fetch.queue.backoff.ms": 5,
}
_OF_THE_GROUP = {KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.COORDINATOR_NOT_AVAILABLE}
_POLL_S = 0.1


class Got(Enum):
    """What a consumer's message is."""

    RECORD = "a record"
    END = "the end of a partition"
    NOTHING = "neither, and no failure either"


_Records = dict[Place, list[RecordFacts]]


def records_from(settings: Mapping[str, Any], starts: Mapping[Place, int], count: int, *, seconds: float) -> _Records:
    """Return, by topic and partition, the first `count` readable records at or after an offset; fewer where the log ends.

    Args:
        settings: The client's settings, with the brokers' addresses and the isolation level.
        starts: The offsets. None may lie behind the end of its log.
        count: The most records to return for each partition.
        seconds: The time in which the brokers must answer.

    Raises:
        RetryableError: The brokers did not answer in time, or an offset was deleted meanwhile.
        FatalError: The user may not read a topic.
    """
    found: _Records = {place: [] for place in starts}
    waiting = set(starts)
    consumer = Consumer({**settings, **_READING})
    deadline = time.monotonic() + seconds
    try:
        consumer.assign([TopicPartition(*place, offset) for place, offset in starts.items()])
        while waiting:
            message = consumer.poll(_POLL_S)
            if message is None:
                if time.monotonic() > deadline:
                    raise unanswered(waiting, f"no answer within {seconds:g} s")
            elif _is_enough(message, found, count):
                waiting.discard(place_of(message))
    except KafkaException as error:
        raise explained(waiting, error.args[0]) from error
    finally:
        consumer.close()
    return found


def _is_enough(message: Message, found: _Records, count: int) -> bool:
    """Store a record in `found`; return whether its partition is finished."""
    kind = got(message)
    if kind is not Got.RECORD:
        return kind is Got.END
    records = found[place_of(message)]
    if len(records) < count:
        _, timestamp = message.timestamp()
        records.append(
            RecordFacts(offset=int(message.offset() or 0), timestamp=timestamp, leader_epoch=message.leader_epoch())
        )
    return len(records) >= count


def got(message: Message) -> Got:
    """Return what a message is.

    Raises:
        KafkaException: It is a failure.
    """
    error = message.error()
    if error is None:
        return Got.RECORD
    if error.code() in _OF_THE_GROUP:
        return Got.NOTHING
    if error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - public: names of librdkafka's own errors begin with _
        raise KafkaException(error)
    return Got.END


def place_of(message: Message) -> Place:
    """Return the topic and partition of a record, or of the end of a partition."""
    return str(message.topic()), int(message.partition() or 0)


def explained(waiting: set[Place], error: KafkaError) -> TidelineError:
    """Return the error to raise for the failure of a consumer that waits for records of these partitions."""
    if error.code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return unanswered(waiting, error.str(), passes=error.code() in passing.CODES)
    topics = ", ".join(sorted({topic for topic, _ in waiting}))
    return FatalError(
        f"topics {topics}: one of them is not permitted: {error.str()}",
        next_step="grant the pipeline's user READ on the topic",
        entry="kafka-refuses",
    )


def unanswered(waiting: set[Place], why: str, *, passes: bool = False) -> RetryableError:
    """Return the error to raise if no record of these partitions comes. `passes` if it passes by itself within seconds."""
    places = ", ".join(f"{topic}/{partition}" for topic, partition in sorted(waiting)[:5])
    kind = PassingError if passes else RetryableError
    return kind(
        f"records of {places} could not be read: {why}",
        next_step="check that the brokers run and that the user may read the topic; the task tries again by itself",
        entry="kafka-does-not-answer",
    )
