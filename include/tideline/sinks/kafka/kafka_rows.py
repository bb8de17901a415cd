"""Find published batches whose records were deleted from an output topic: a receipt says that a commit happened, not that its rows are still there.

An intent knows where the topic ended before its commit, so all records of its batch lie behind that. Where the log begins further behind, and
the topic's own retention is no cause, a person or a program has deleted them.
"""

from collections.abc import Iterator, Mapping, Sequence

from confluent_kafka.admin import ConfigEntry, ConfigResource

from tideline.declaration.kafka_sink import KafkaSink
from tideline.declaration.pipelines import Pipeline
from tideline.kafka.connection import TIMEOUT_S, Connection
from tideline.ledger.published_rows import Sent
from tideline.sinks.kafka.kafka_search import Log, log_of
from tideline.sinks.kind import section


def deleted(pipeline: Pipeline, batches: Sequence[Sent]) -> dict[Sent, str]:
    """Return the batches of which records are not in the output topic any more, with what shows it. Nothing where there is no topic.

    Args:
        pipeline: It writes to a topic, and no other pipeline does: a topic that grows between two batches could not tell whose records are gone.
        batches: Batches that were committed to it one after the other, the last one first.

    Raises:
        RetryableError: The brokers did not answer.
        FatalError: The declaration, a password or a permission is wrong.
    """
    sink = section(pipeline, KafkaSink)
    connection = Connection(sink.brokers(pipeline.source))
    if not batches or sink.topic not in connection.topic_names():
        return {}
    asked = connection.admin.describe_configs(
        [ConfigResource(ConfigResource.Type.TOPIC, sink.topic)], request_timeout=TIMEOUT_S
    )
    settings: Mapping[str, ConfigEntry] = next(iter(connection.existing(asked, readable_only=True).values()), {})
    log = log_of(connection, sink.topic)
    ends = [log.ends, *(_ends(one) for one in batches[:-1])]
    found = {one: list(_gone(sink.topic, log, one, behind)) for one, behind in zip(batches, ends, strict=True)}
    return {one: ", ".join(gone) for one, gone in found.items() if gone and not _retention_may(settings, one)}


def _gone(topic: str, log: Log, batch: Sent, behind: Mapping[int, int]) -> Iterator[str]:
    """Yield the partitions of which records of a batch were deleted. `behind`: where the topic ended before the next batch was committed."""
    if batch.position["topic_id"] != log.topic_id:
        yield f"{topic} was created again since"
        return
    for number, first in sorted(_ends(batch).items()):
        start = log.starts.get(number, 0)
        if start > first and behind.get(number, first) > first:
            yield f"{topic}/{number} begins at {start} now, they were sent to {first} and behind it"


def _ends(batch: Sent) -> dict[int, int]:
    return {int(number): end for number, end in batch.position["ends"].items()}


def _retention_may(settings: Mapping[str, ConfigEntry], batch: Sent) -> bool:
    """Return whether the topic's own settings may have deleted a batch as old. They may if the user may not read them."""
    if not settings:
        return True
    if "delete" not in str(settings["cleanup.policy"].value):
        return False
    milliseconds, size = int(settings["retention.ms"].value), int(settings["retention.bytes"].value)
    return size >= 0 or 0 <= milliseconds <= batch.age_seconds * 1000
