"""A part of the tour: the pipeline `enriched_events` sends impressions in Avro with their offer to a topic, and its rejects to another, each once."""

import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tideline.errors import RetryableError
from tideline_demo import avro_impressions, loads
from tideline_demo.stage import DemoStage
from tideline_stack.supervisor import show_step

DAG = "enriched_events"
OUTPUT, REJECTS = "enriched_impressions", "ad_impressions_rejects"
RECORDS = 20_000
_ORIGIN = "tideline-origin"
_SECONDS = 60.0
"""Time limit in seconds without a message."""
_POLL_S = 0.5
"""Seconds that one read takes at most. It waits for so long unless it is full, also at the end of a topic."""


def play(stage: DemoStage) -> list[str]:
    """Load impressions into another topic, and compare what its readers see with what the ledger has counted.

    Returns:
        One line for each difference.
    """
    loads.create_offers(stage)
    _create_topics(stage.bootstrap)
    registry = stage.environment["TIDELINE_REGISTRY"]
    with show_step(f"{RECORDS:,} impressions in Avro"):
        since = datetime.now(UTC) - timedelta(hours=2)
        avro_impressions.produce(stage.bootstrap, registry, RECORDS, seed=time.time_ns(), since=since)
    stage.load(DAG)
    [counted] = stage.look("count_events", pipeline=DAG)
    problems = []
    for topic, expected in ((OUTPUT, counted["n_written"]), (REJECTS, counted["n_rejected"])):
        found = Counter(origins(stage.bootstrap, topic))
        print(f"  {topic} holds {sum(found.values()):,} records of {len(found):,} impressions.")
        if twice := sum(count > 1 for count in found.values()):
            problems.append(f"{topic}: {twice:,} impressions are there twice")
        if len(found) != expected:
            problems.append(f"{topic}: expected {expected:,} impressions, found {len(found):,}")
    stage.look_at(stage.page("pipelines", DAG))
    stage.look_at(f"{registry}/subjects/{OUTPUT}-value/versions/latest   (the schema that the load has registered)")
    return problems


def _create_topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    there = admin.list_topics(timeout=30).topics
    for topic in {OUTPUT, REJECTS} - there.keys():
        admin.create_topics([NewTopic(topic, num_partitions=4, replication_factor=1)])[topic].result(30)


def origins(bootstrap: str, topic: str) -> list[str]:
    """Return the origin of each committed record of a topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"demo {uuid4().hex}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    left = set(consumer.list_topics(topic, 30).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in left])
    found: list[str] = []
    deadline = time.monotonic() + _SECONDS
    while left:
        messages = consumer.consume(10_000, timeout=_POLL_S)
        if messages:
            deadline = time.monotonic() + _SECONDS
        elif time.monotonic() > deadline:
            raise RetryableError(f"topic {topic} could not be read to its end", next_step="run it again")
        found += [_origin(message) for message in messages if message.error() is None]
        left -= {int(message.partition() or 0) for message in messages if _is_end(message)}
    consumer.close()
    return found


def _origin(message: Message) -> str:
    headers = dict(message.headers() or ())
    return str(headers[_ORIGIN], "utf-8")


def _is_end(message: Message) -> bool:
    error = message.error()
    return error is not None and error.code() == KafkaError._PARTITION_EOF  # noqa: SLF001 - public: names of librdkafka's own errors begin with _
