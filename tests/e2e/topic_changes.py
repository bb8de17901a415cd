"""Changes of topics between two runs: records are deleted."""

from collections.abc import Mapping

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from system import System


def forget(system: System, topic: str, before: Mapping[int, int]) -> None:
    """Delete the records before an offset of each partition, as retention does."""
    asked = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
    admin = _admin(system)  # kept in a variable: a collected client never gets its answers
    for partition, future in admin.delete_records(asked).items():
        assert future.result(180).low_watermark == partition.offset


def _admin(system: System) -> AdminClient:
    return AdminClient({"bootstrap.servers": system.bootstrap})
