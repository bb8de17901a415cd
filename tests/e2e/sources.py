"""What happens to topics while nobody looks: records are deleted, topics are created again, or grow."""

from collections.abc import Mapping

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

import records
from system import System


def forget(system: System, topic: str, before: Mapping[int, int]) -> None:
    """Delete the records before an offset of each partition, as retention does."""
    asked = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
    admin = _admin(system)  # kept: answers to one that is collected never come
    for partition, future in admin.delete_records(asked).items():
        assert future.result(30).low_watermark == partition.offset


def recreate(system: System, topic: str) -> None:
    """Delete a topic and make it anew, empty."""
    admin = _admin(system)
    admin.delete_topics([topic])[topic].result(30)

    def recreated() -> bool:
        try:
            records.create(system.bootstrap, name=topic)
        except KafkaException:  # the old one is still being deleted
            return False
        return True

    system.wait(recreated, f"topic {topic} to be created again")


def grow(system: System, topic: str, partitions: int) -> None:
    """Give a topic more partitions, and wait until they can be written to."""
    admin = _admin(system)
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(30)
    system.wait(lambda: records.ready(admin, topic, partitions), f"{topic} to have {partitions} partitions")


def _admin(system: System) -> AdminClient:
    return AdminClient({"bootstrap.servers": system.bootstrap})
