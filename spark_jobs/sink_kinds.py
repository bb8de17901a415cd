"""The kinds of sink. A new kind is a folder in `spark_jobs/sinks` and an entry here."""

from importlib import import_module

from spark_jobs.sinks.kafka.sink import KafkaTopics
from spark_jobs.sinks.postgres.sink import PostgresSink
from spark_jobs.sinks.sink import Sink
from tideline.declaration.pipelines import Pipeline

SINKS: dict[str, Sink] = {"postgres": PostgresSink(), "kafka": KafkaTopics()}
"""By `sink.kind` of the declaration."""


def sink_of(pipeline: Pipeline) -> Sink:
    """Return the sink that a pipeline declares."""
    if pipeline.sink.kind == "delta":  # its library is an extra of the package
        delta: Sink = import_module("spark_jobs.sinks.delta.sink").LakeSink()
        return delta
    return SINKS[pipeline.sink.kind]
