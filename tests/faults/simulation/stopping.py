"""A stream stops for a reason: when it does, what Kafka holds must give one. Else every healthy stream might wait for a person."""

from faults.memory import MemoryDatabase
from faults.memory.rows import Stream
from faults.simulation.kafka import SimulatedKafka


def unfounded(database: MemoryDatabase, kafka: SimulatedKafka, stream: Stream) -> str | None:
    """Why there is no reason; asked only while Kafka is as it was when whoever stops the stream looked at it."""
    topic = kafka.cluster.topics.get(stream.topic)
    if kafka.cluster.cluster_id != stream.cluster_id:
        return "another cluster answers: that stops nothing"
    if topic is None or topic.topic_id != stream.topic_id or stream.partition >= len(topic.logs):
        return None
    log = topic.logs[stream.partition]
    planned = [ranges[stream.stream_id].end for ranges in database.ranges.values() if stream.stream_id in ranges]
    covered = [piece.end for piece in database.coverage[stream.stream_id].values()]
    if log.start > stream.next_offset or log.stable_end < max([stream.next_offset, *planned, *covered]):
        return None
    return f"the log holds [{log.start}, {log.stable_end}), and nothing else was ever planned or read"
