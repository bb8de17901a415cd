"""The kinds of output. A new kind is a folder beside this file, its section of the declaration, and an entry here."""

from tideline.declaration.pipelines import Pipeline
from tideline.sinks.delta.kind import DeltaTables
from tideline.sinks.kafka.kind import KafkaTopics
from tideline.sinks.kind import Kind
from tideline.sinks.postgres.kind import PostgresTables

KINDS: dict[str, Kind] = {"postgres": PostgresTables(), "kafka": KafkaTopics(), "delta": DeltaTables()}
"""By `sink.kind` of the declaration."""


def of(pipeline: Pipeline) -> Kind:
    """Return the kind of output that a pipeline declares."""
    return KINDS[pipeline.sink.kind]
