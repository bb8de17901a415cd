"""What readers of an output topic see, and another process that commits a batch and freezes on the way."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psutil
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from given_topics.topics import until
from identities import batch
from tideline.declaration.brokers import Brokers
from tideline.declaration.security import Security
from tideline.domain.receipts import Receipt
from tideline.errors import TidelineError
from tideline.sinks import evidence
from tideline.sinks.evidence import Intended
from tideline.sinks.kafka import kafka_transaction
from tideline.sinks.kafka.kafka_topic import ORIGIN, KafkaTopic, Message

N_ROWS = 40
_PATIENCE_S = 60


def committed_records(servers: str, topic: str) -> list[Any]:
    """Return what a reader of committed records sees now, partition by partition, each in order."""
    return sorted(committed(servers, topic), key=lambda one: (one.partition(), one.offset()))


def committed_count(servers: str, topic: str) -> int:
    """Return how many records a reader of committed records sees now."""
    return sum(1 for _ in committed(servers, topic))


def committed(servers: str, topic: str) -> Iterator[Any]:
    """Yield what a reader of committed records sees now."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": uuid4().hex,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    partitions = consumer.list_topics(topic, 30).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    left, waited = set(partitions), 0
    while left:
        messages = consumer.consume(1_000, timeout=1)
        waited = 0 if messages else waited + 1
        assert waited < _PATIENCE_S, "the reader is held up by an open transaction or gets no answer"
        for message in messages:
            if message.error() is None:
                yield message
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                left.discard(message.partition())
    consumer.close()


def origins(servers: str, topic: str) -> list[str]:
    """Return the origins of the committed records, sorted."""
    return sorted(dict(one.headers())[ORIGIN].decode() for one in committed_records(servers, topic))


def rows(batch_id: int, count: int = N_ROWS) -> list[Message]:
    """Return the rows of a batch."""
    return [
        Message(
            key=f"key {number}".encode(),
            value=json.dumps({"batch": batch_id, "number": number}).encode(),
            headers=[(ORIGIN, origin(batch_id, number).encode())],
        )
        for number in range(count)
    ]


def origin(batch_id: int, number: int) -> str:
    return f"batch-{batch_id}/0/{number:04}"


def all_of(*batches: int, count: int = N_ROWS) -> list[str]:
    """Return the origins of all rows of these batches."""
    return [origin(batch_id, number) for batch_id in sorted(batches) for number in range(count)]


def output(
    servers: str,
    topic: str,
    *,
    pipeline: str = "enriched",
    seconds: int = 60,
    security: Security | None = None,
    intended: Intended = evidence.none_intended,
    purpose: str = "",
) -> KafkaTopic:
    """Return the output topic of a pipeline."""
    brokers = Brokers(pipeline=pipeline, section="sink", bootstrap_servers=servers, security=security or Security())
    return KafkaTopic(pipeline, brokers, topic, seconds=seconds, intended=intended, purpose=purpose)


def receipt(fence: int) -> Receipt:
    return Receipt(fence=fence, attempt=uuid4())


class Frozen:
    """An attempt in a process of its own, which stops itself at a door, as if it were frozen by its machine.

    Args:
        door: `begin` before its producer begins, `look` before it reads the version, `send` in the middle of its rows, `commit` before it
            commits, `end` after it.
        arguments: Those of `output`.
    """

    def __init__(self, door: str, batch_id: int, own: Receipt, **arguments: Any) -> None:
        said = {
            "door": door,
            "batch_id": batch_id,
            "fence": own.fence,
            "attempt": str(own.attempt),
            "output": arguments,
        }
        self._process = subprocess.Popen(
            [sys.executable, __file__, json.dumps(said)], stdout=subprocess.PIPE, text=True, env=_environment()
        )
        try:
            until(lambda: psutil.Process(self._process.pid).status() == psutil.STATUS_STOPPED)
        except BaseException:
            self.killed()
            raise

    def thawed(self) -> str:
        """Let it go on; return what it says in the end: `committed`, or the name of an error."""
        os.kill(self._process.pid, signal.SIGCONT)
        return self._process.communicate(timeout=180)[0].splitlines()[-1]

    def killed(self) -> None:
        """End it where it is, if it has not ended."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate(timeout=60)


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}


def _stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


class _Doors:
    """Replaces the client's classes by subclasses that stop at a door."""

    def __init__(self, door: str) -> None:
        class Doored(Producer):  # type: ignore[misc]  # the client has no types
            def init_transactions(self, *arguments: Any) -> None:
                if door == "begin":
                    _stop()
                super().init_transactions(*arguments)
                if door == "look":
                    _stop()

            def commit_transaction(self, *arguments: Any) -> None:
                if door == "commit":
                    _stop()
                super().commit_transaction(*arguments)
                if door == "end":
                    _stop()

        kafka_transaction.Producer = Doored  # type: ignore[attr-defined]  # a name that the module imports
        self._door = door

    def rows(self, batch_id: int) -> Iterator[Message]:
        for number, row in enumerate(rows(batch_id)):
            if self._door == "send" and number == N_ROWS // 2:
                _stop()
            yield row


def _main() -> None:
    said = json.loads(sys.argv[1])
    own = Receipt(fence=said["fence"], attempt=said["attempt"])
    doors = _Doors(said["door"])
    try:
        output(**said["output"]).commit(batch(said["batch_id"]), own, doors.rows(said["batch_id"]), N_ROWS)
        print("committed")
    except TidelineError as error:
        print(repr(error), file=sys.stderr)
        print(type(error).__name__)


if __name__ == "__main__":
    _main()
