"""Send the lines of a file to a topic: `python -m tideline_stack.produce TOPIC FILE`; `-` reads stdin. For trials.

Each line becomes the value of one record, without a key. With `--key FIELD` that field of each line, which is JSON, is
the key, and all records of a key go to one partition. With `--schema FILE` each line is written in Avro with this schema,
which is registered for the topic. The topic is created with three partitions if it does not exist. TIDELINE_KAFKA names the
brokers, and TIDELINE_REGISTRY the registry; without them, they are those of the running local stack.
"""

import argparse
import json
import sys
from collections.abc import Sequence

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tideline import environment
from tideline.deployment import local_stack
from tideline.errors import FatalError, RetryableError, TidelineError
from tideline_stack import avro_lines

_PARTITIONS = 3
_SECONDS = 30


def main() -> int:
    """Run the command that the command line gives; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tideline_stack.produce", description=__doc__)
    parser.add_argument("topic")
    parser.add_argument("file", type=argparse.FileType("rb"))
    parser.add_argument("--key", metavar="FIELD")
    parser.add_argument("--schema", metavar="FILE", type=argparse.FileType("r", encoding="utf-8"))
    given = parser.parse_args()
    try:
        local_stack.connect()
        lines = given.file.read().splitlines()
        keys = _keys(lines, given.key) if given.key else [None] * len(lines)
        values = avro_lines.encoded(given.topic, given.schema.read(), lines) if given.schema else lines
        records = list(zip(keys, values, strict=True))
        send(environment.required("TIDELINE_KAFKA", "the addresses of the brokers"), given.topic, records)
    except TidelineError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(f"Sent {len(lines):,} records to {given.topic}.")
    return 0


def _keys(lines: Sequence[bytes], field: str) -> list[bytes]:
    """Return the value of a field of each line.

    Raises:
        FatalError: A line is no JSON object with this field. Nothing was sent.
    """
    keys = []
    for number, line in enumerate(lines, 1):
        try:
            keys.append(str(json.loads(line)[field]).encode())
        except (ValueError, TypeError, LookupError) as error:
            raise FatalError(
                f"line {number}: expected a JSON object with the field {field}, found {line[:80]!r}",
                next_step="correct it, or leave --key out; nothing was sent",
            ) from error
    return keys


def send(bootstrap: str, topic: str, records: Sequence[tuple[bytes | None, bytes]]) -> None:
    """Send keys and values to a topic. Records without a key take turns over the partitions.

    Raises:
        RetryableError: The brokers did not acknowledge all of them.
    """
    failures: list[str] = []

    def acknowledged(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failures.append(error.str())

    try:
        partitions = _partitions(bootstrap, topic)
        producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
        for number, (key, value) in enumerate(records):
            place = {"partition": number % partitions} if key is None else {"key": key}
            producer.produce(topic, value, on_delivery=acknowledged, **place)
        waiting = producer.flush(_SECONDS)
    except KafkaException as error:
        raise _not_sent(bootstrap, topic, error.args[0].str()) from error
    if waiting or failures:
        raise _not_sent(bootstrap, topic, failures[0] if failures else f"{waiting} records were not acknowledged")


def _partitions(bootstrap: str, topic: str) -> int:
    """Return the number of the topic's partitions. Create the topic if it does not exist."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    found = admin.list_topics(timeout=_SECONDS).topics
    if topic in found:
        return len(found[topic].partitions)
    admin.create_topics([NewTopic(topic, num_partitions=_PARTITIONS, replication_factor=1)])[topic].result(_SECONDS)
    return _PARTITIONS


def _not_sent(bootstrap: str, topic: str, why: str) -> RetryableError:
    return RetryableError(
        f"brokers {bootstrap}, topic {topic}: expected to send all records, found: {why}",
        next_step="check that the brokers run; records that were acknowledged are sent again when you repeat this",
    )


if __name__ == "__main__":
    sys.exit(main())
