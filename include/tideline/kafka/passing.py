"""Asks brokers once more where their answer passes by itself: a partition was just added, a leader moves, or a coordinator starts.

Such an answer is no reason to fail a task, which would begin again after minutes. Who holds a lock meanwhile sets a deadline.
"""

# ruff: noqa: SLF001 - the names of librdkafka's own errors begin with _ and are public; and a copy of this class is set up here

import time
from collections.abc import Callable
from copy import copy
from functools import wraps
from math import inf
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

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


class Bounded:
    """Brokers that may have a deadline, for those who hold a lock while they ask."""

    _asker = ""
    _deadline = inf

    def until(self, deadline: float, *, asker: str) -> Self:
        """Return these brokers with a deadline, by `time.monotonic`, after which each method raises a `RetryableError` in the name of `asker`."""
        bounded = copy(self)
        bounded._asker, bounded._deadline = asker, deadline
        return bounded

    def check_time(self) -> None:
        """Raise a `RetryableError` if the deadline has passed."""
        if time.monotonic() > self._deadline:
            raise RetryableError(
                f"{self._asker}: the brokers have not answered all questions in the time that it may hold its pipeline's lock for",
                next_step="see why they answer slowly; the task tries again by itself",
                entry="plan-takes-too-long",
            )


def patient(ask: Callable[Concatenate[Any, _Asked], _Answer]) -> Callable[Concatenate[Any, _Asked], _Answer]:
    """Let a method of `Bounded` brokers ask again, for `SECONDS`, while it raises a `PassingError`. Then that error leaves it."""

    @wraps(ask)
    def asking(brokers: Bounded, /, *asked: _Asked.args, **named: _Asked.kwargs) -> _Answer:
        # Not by tenacity: it keeps what it has called in a cycle, and a client of Kafka that is let go would keep its threads.
        end, pause = time.monotonic() + SECONDS, 0.05
        while True:
            brokers.check_time()
            try:
                return ask(brokers, *asked, **named)
            except PassingError:
                if time.monotonic() + pause > end:
                    raise
            time.sleep(pause)
            pause = min(1.0, 2 * pause)

    return asking
