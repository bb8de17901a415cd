"""Asks brokers once more where their answer passes by itself: a partition was just added, a leader moves, or a coordinator starts.

Such an answer is no reason to fail a task, which would begin again after minutes.
"""

# ruff: noqa: SLF001 - public: names of librdkafka's own errors begin with _

import time
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from confluent_kafka import KafkaError

from tideline.errors import RetryableError

SECONDS = 10.0
"""How long to ask again. An election and the news of a topic take a second or two, and more on a busy machine."""
CODES = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,  # of a topic that is listed, see `Connection`
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.LISTENER_NOT_FOUND,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }
)
"""The codes of such answers. `KafkaError.retriable` knows only errors of transactions."""

_Asked = ParamSpec("_Asked")
_Answer = TypeVar("_Answer")


class PassingError(RetryableError):
    """The brokers gave an answer that passes by itself."""


def patient(ask: Callable[_Asked, _Answer]) -> Callable[_Asked, _Answer]:
    """Let a method that asks brokers ask again, for `SECONDS`, while it raises a `PassingError`. Then that error leaves it."""

    @wraps(ask)
    def asking(*asked: _Asked.args, **named: _Asked.kwargs) -> _Answer:
        deadline, pause = time.monotonic() + SECONDS, 0.05
        while True:
            try:
                return ask(*asked, **named)
            except PassingError:
                if time.monotonic() + pause > deadline:
                    raise
            time.sleep(pause)
            pause = min(1.0, 2 * pause)

    return asking
