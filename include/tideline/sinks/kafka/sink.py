"""The Kafka sink as the Spark job uses it: a staging table that executors COPY to, and one transaction of the topic."""

from dataclasses import dataclass

import pyarrow as pa

from tideline.declaration.kafka_sink import KafkaSink
from tideline.declaration.pipelines import Pipeline
from tideline.domain.receipts import Receipt
from tideline.errors import FatalError
from tideline.kafka.broker import Broker
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger
from tideline.sinks import staging_tables
from tideline.sinks.kafka import encoding, kafka_topic, sending, staging, written_schema
from tideline.sinks.kafka.counting import counted
from tideline.sinks.kafka.encoding import Records
from tideline.sinks.kafka.kafka_topic import KafkaTopic
from tideline.sinks.kafka.staging import TopicStage
from tideline.sinks.kind import section
from tideline.sinks.sink import Publication, StagedCommit, StagingPlace
from tideline.sinks.staging_tables import staging_name


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOutput:
    """The topic that an attempt writes to."""

    name: str
    topic: KafkaTopic
    records: Records
    attempt: Attempt

    def describe(self) -> str:
        """Return the name of the topic."""
        return self.name

    def stage(self, ledger: Ledger, place: StagingPlace) -> TopicStage:
        """Create the attempt's staging table, and return what each task needs to COPY to it."""
        staging.create(ledger, self.attempt, self.records)
        table = staging_name(self.attempt)
        return TopicStage(place=place, table=table, records=self.records)

    def count(self, publication: Publication) -> StagedCommit:
        """Return what the winning tasks have staged, without records that became rejects, and where the topic ends."""
        return counted(publication, self.attempt)._replace(position=self.topic.position())

    def commit(self, publication: Publication, staged: StagedCommit) -> Receipt:
        """Send the staged rows in one transaction, in order, and commit them together with the receipt."""
        tasks = [winner.task for winner in publication.winners]
        return self.topic.commit(
            self.attempt.batch,
            self.attempt.receipt,
            sending.messages(publication.ledger, self.attempt, self.records, tasks),
            staged.n_rows,
            max_bytes=self.records.max_bytes,
        )

    def clear(self, ledger: Ledger) -> None:
        """Drop the staging tables of this and earlier attempts."""
        staging_tables.drop(ledger, self.attempt)


class TopicSink:
    """Topics, on the brokers of the source or on others."""

    def prepare(self, ledger: Ledger, pipeline: Pipeline, attempt: Attempt, produced: pa.Schema) -> TopicOutput:  # noqa: ARG002 - a sink's signature
        """Check that the topic exists, and that it can hold what the transform produces."""
        sink = section(pipeline, KafkaSink)
        topic = kafka_topic.sink(pipeline)
        limits = topic.limits()
        topic.check_memory(limits)
        encoder = written_schema.found(pipeline, produced)
        problems = encoding.problems(sink, produced, encoder)
        if limits.compacted and not sink.key:
            problems.append("the topic is compacted, so each record needs a key: declare sink.key")
        if pipeline.source.names(sink.topic) and limits.cluster_id == Broker(pipeline.source).cluster_id():
            problems.append("the pipeline reads this topic itself, and would load its own output for ever")
        if problems:
            raise FatalError(
                f"{attempt}: {sink.output} does not fit what the transform produces: {'; '.join(problems)}",
                next_step=f"correct sink in {pipeline.folder.name}/pipeline.yaml, or transform.py; nothing was read",
                entry="output-topic-does-not-fit",
            )
        records = encoding.records(sink, produced, encoder, max_bytes=limits.max_bytes, needs_key=limits.compacted)
        return TopicOutput(name=sink.output, topic=topic, records=records, attempt=attempt)
