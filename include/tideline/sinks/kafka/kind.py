"""Topics, on the brokers of the source or on others."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from tideline.declaration.kafka_sink import KafkaSink
from tideline.declaration.pipelines import Pipeline
from tideline.ledger.connection import Ledger
from tideline.ledger.published_rows import Sent
from tideline.sinks import evidence
from tideline.sinks.kind import ClusterOf, Dataset, Kind, loaded, section
from tideline.sinks.outside import Memory, OutsideSink

if TYPE_CHECKING:
    import pyarrow as pa

    from tideline.sinks.kafka.kafka_topic import KafkaTopic
    from tideline.sinks.sink import Sink


class KafkaTopics(Kind):
    """Topics: a batch is a transaction, and its receipt is what a group of the batch has committed."""

    asks_brokers: ClassVar[bool] = True

    def sink(self, pipeline: Pipeline) -> "Sink":
        """See `Kind.sink`."""
        sink: Sink = loaded(pipeline, "tideline.sinks.kafka.sink").TopicSink()
        return sink

    def place(self, pipeline: Pipeline, cluster_of: ClusterOf) -> str:
        """Return the id of the cluster, and the topic."""
        declared = section(pipeline, KafkaSink)
        return f"{cluster_of(declared.brokers(pipeline.source))}/{declared.topic}"

    def dataset(self, pipeline: Pipeline, ledger: Ledger) -> Dataset:  # noqa: ARG002 - a topic has no columns of its own
        """See `Kind.dataset`."""
        declared = section(pipeline, KafkaSink)
        return Dataset(declared.brokers(pipeline.source).namespace(), declared.topic, ())

    def misfits(self, pipeline: Pipeline, produced: "pa.Schema") -> Sequence[str] | None:
        """See `Kind.misfits`."""
        found: Sequence[str] | None = loaded(pipeline, "tideline.sinks.kafka.written_schema").misfits(
            pipeline, produced
        )
        return found

    def outside(self, pipeline: Pipeline, ledger: Ledger, *, searching: bool = True) -> OutsideSink:
        """See `Kind.outside`."""
        intended = evidence.intended(ledger) if searching else evidence.none_intended
        topic: KafkaTopic = loaded(pipeline, "tideline.sinks.kafka.kafka_topic").sink(
            pipeline, evidence.of(ledger, pipeline), intended
        )
        return topic

    def memory(self, pipeline: Pipeline) -> Memory:
        """See `Kind.memory`."""
        topic: KafkaTopic = loaded(pipeline, "tideline.sinks.kafka.kafka_topic").sink(pipeline)
        limits = topic.limits()
        return Memory(limits.memory_days, limits.sure_days)

    def deleted(self, pipeline: Pipeline, batches: Sequence[Sent]) -> Mapping[Sent, str] | None:
        """See `Kind.deleted`. Of a topic that several pipelines write, nothing tells which of them sent what lay between two batches."""
        if pipeline.sink.shared:
            return None
        found: Mapping[Sent, str] = loaded(pipeline, "tideline.sinks.kafka.kafka_rows").deleted(pipeline, batches)
        return found
