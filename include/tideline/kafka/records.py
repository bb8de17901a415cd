"""Looks at single records: their offset, their timestamp and the leader that took them, never what they hold.

Asked only where a listing of offsets cannot answer: where a record carries a time that has not come yet, and where a leader was elected since.
"""

import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tideline.domain.facts import Place, RecordFacts
from tideline.errors import FatalError, RetryableError, TidelineError

_READING = {
    # It joins no group and commits nothing, but the client wants a name for one.
    "group.id": "tideline.look",
    "enable.auto.commit": False,
    # Never go on from another offset than the one that was asked for.
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    # A few records are wanted, and not what a consumer would fetch ahead.
    "queued.min.messages": 1,
    "fetch.message.max.bytes": 65_536,
    # With one record in its queue the client pauses before it fetches on, by default for a second; at the end of a log the broker waits for more, by
    # default for half a second. A search for a time looks some ten times.
    "fetch.queue.backoff.ms": 5,
    "fetch.wait.max.ms": 10,
    "log_level": 0,
}
_OF_THE_GROUP = {KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.COORDINATOR_NOT_AVAILABLE}
_POLL_S = 0.1

_Records = dict[Place, list[RecordFacts]]


def records_from(settings: Mapping[str, Any], starts: Mapping[Place, int], count: int, *, seconds: float) -> _Records:
    """By topic and partition, the first `count` records at or behind an offset that may be read now; fewer where the log ends.

    Args:
        settings: Of the client: where the brokers are, and at which isolation level to read.
        starts: The offsets. None may lie behind the end of its log.
        count: How many are enough.
        seconds: How long to wait for the brokers.

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
                    raise _unanswered(waiting, f"no answer within {seconds:g} s")
            elif _is_enough(message, found, count):
                waiting.discard((str(message.topic()), int(message.partition() or 0)))
    except KafkaException as error:
        raise _explained(waiting, error.args[0]) from error
    finally:
        consumer.close()
    return found


def _is_enough(message: Message, found: _Records, count: int) -> bool:
    """Keep a record; whether its partition needs no more of them."""
    error = message.error()
    if error is not None:
        if error.code() in _OF_THE_GROUP:
            return False
        if error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - public: the names of librdkafka's own errors begin so
            raise KafkaException(error)
        return True
    records = found[str(message.topic()), int(message.partition() or 0)]
    if len(records) < count:
        _, timestamp = message.timestamp()
        records.append(
            RecordFacts(offset=int(message.offset() or 0), timestamp=timestamp, leader_epoch=message.leader_epoch())
        )
    return len(records) >= count


def _explained(waiting: set[Place], error: KafkaError) -> TidelineError:
    if error.code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return _unanswered(waiting, error.str())
    topics = ", ".join(sorted({topic for topic, _ in waiting}))
    return FatalError(
        f"topics {topics}: one of them is not permitted: {error.str()}",
        next_step="grant the pipeline's user READ on the topic",
        entry="kafka-refuses",
    )


def _unanswered(waiting: set[Place], why: str) -> RetryableError:
    places = ", ".join(f"{topic}/{partition}" for topic, partition in sorted(waiting)[:5])
    return RetryableError(
        f"no records of {places} could be looked at: {why}",
        next_step="check that the brokers run and that the user may read the topic; the task tries again by itself",
        entry="kafka-does-not-answer",
    )
