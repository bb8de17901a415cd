"""The model of one `pipeline.yaml`, as frozen values: its keys, their defaults and their types.

Opens no file. Reads the environment only in `Source.connection` and `Source.secrets`. `tideline.declaration.pipelines`
creates these values and writes the messages about mistakes.
"""

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from tideline.declaration.airflow import Cron, Owner, Pool, Tags
from tideline.declaration.kafka_sink import KafkaSink
from tideline.declaration.notify import Notify
from tideline.declaration.sections import AboveZero, MistakeBelow, Section, Text, ZeroOrAbove, variables
from tideline.declaration.sink import PostgresSink, Sink
from tideline.declaration.source import Source, Topic
from tideline.declaration.spark import Spark
from tideline.declaration.state import Stateful

__all__ = [
    "Declaration",
    "Limits",
    "Notify",
    "Pipeline",
    "PostgresSink",
    "Rejects",
    "Section",
    "Sink",
    "Source",
    "Spark",
    "Stateful",
    "Upkeep",
]


class Limits(Section):
    """The limits of one batch and of one run."""

    batch_records: AboveZero = Field(
        default=1_000_000, title="Maximum number of offsets in one batch", description="an integer above 0"
    )
    run_batches: AboveZero = Field(
        default=20, title="Maximum number of new batches that one run plans", description="an integer above 0"
    )
    batch_bytes: AboveZero | None = Field(
        default=None,
        title="Target size of a batch in bytes of keys and values, estimated from the average of earlier batches",
        description="an integer above 0",
    )
    split_records: AboveZero | None = Field(
        default=None,
        title="Maximum number of offsets of one partition that one Spark task reads; null follows the cores of Spark",
        description="an integer above 0, or null",
    )
    max_connections: Annotated[int, Field(ge=4)] | None = Field(
        default=None,
        title="Maximum number of connections with the ledger that the tasks of a batch hold at once; null is three quarters of the free ones",
        description="an integer of at least 4, or null",
    )
    # A driver that hangs may still send heartbeats. Without this limit it would hold its offsets until an operator intervenes.
    timeout_minutes: AboveZero = Field(
        default=240,
        title="Maximum duration in minutes of one attempt at a batch, from its claim to its publish",
        description="an integer above 0",
    )


class Rejects(Section):
    """When rejected records fail a batch, and where else they go."""

    fail_above: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.5,
        title="A batch fails when the rejected share of its records is above this number and at least 100 records are rejected",
        description="a number from 0 to 1",
    )
    topic: Topic | None = Field(
        default=None,
        title="A topic on the brokers of the source to which rejected records are sent too, once; it must exist",
        description="a Kafka topic name",
    )


class Upkeep(Section):
    """How long the history is kept."""

    events_days: AboveZero | None = Field(
        default=None,
        title="The age in days above which events of finished batches are deleted; null keeps them for ever",
        description="an integer above 0, or null",
    )


class Declaration(Section):
    """The contents of `pipeline.yaml`."""

    description: Text = Field(title="Shown in Airflow", description="text")
    schedule: Cron | None = Field(
        default="0 * * * *",
        title="When runs start",
        description="a cron expression of five fields (UTC), or null to start runs only by hand",
    )
    retries: ZeroOrAbove = Field(
        default=2, title="How often a failed task is tried again", description="an integer, 0 or above"
    )
    retry_delay_seconds: ZeroOrAbove = Field(
        default=60, title="Seconds between two tries of a task", description="an integer, 0 or above"
    )
    wake_on_records: bool = Field(
        default=False, title="Whether new records start a run too, besides the schedule", description="true or false"
    )
    owner: Owner | None = Field(
        default=None,
        title="Who Airflow shows as the owner of the DAG; null is Airflow's default",
        description="text of at most 500 characters, or null",
    )
    tags: Tags = Field(
        default=(), title="Tags of the DAG, besides tideline", description="a list of texts of at most 100 characters"
    )
    pool: Pool | None = Field(
        default=None,
        title="The Airflow pool of the task write; it must exist in Airflow, or the task never starts",
        description="the name of an Airflow pool, or null",
    )
    source: Source
    sink: Sink
    state: Stateful | None = None
    limits: Limits = Limits()
    rejects: Rejects = Rejects()
    spark: Spark = Spark()
    notify: Notify = Notify()
    upkeep: Upkeep = Upkeep()

    @model_validator(mode="after")
    def _deletions_fit(self) -> Self:
        if self.source.tombstones == "delete" and (why := self._why_no_deletions()):
            raise MistakeBelow(("source", "tombstones"), f"expected delete only {why}")
        return self

    @model_validator(mode="after")
    def _rejects_are_not_read_again(self) -> Self:
        if self.rejects.topic is not None and self.source.names(self.rejects.topic):
            raise MistakeBelow(
                ("rejects", "topic"),
                f"expected a topic that the pipeline does not read, found {self.rejects.topic}: "
                "each reject would be read and rejected again, for ever",
            )
        return self

    def _why_no_deletions(self) -> str | None:
        if not isinstance(self.sink, PostgresSink) or self.sink.mode != "upsert":
            return "with sink.mode upsert: no other sink deletes rows"
        if self.source.key is None:
            return "with source.key, which names the row to delete"
        if missing := [name for name in self.sink.key if name not in self.source.key.names]:
            return f"with a source.key that has all columns of sink.key, found none for {', '.join(missing)}"
        if missing := [name for name in self.sink.order if name not in self.source.value.beside]:
            return (
                "with a sink.order of columns that deletions have too, which are those of source.value.envelope: "
                f"found none for {', '.join(missing)}, and a tombstone has no columns to order by"
            )
        return None

    @model_validator(mode="after")
    def _written_schemas_have_a_registry(self) -> Self:
        if isinstance(self.sink, KafkaSink) and self.sink.needs_registry and not self.sink.registered_at(self.source):
            raise MistakeBelow(
                ("sink", "value"),
                f"expected sink.registry or source.registry with format {self.sink.value.format}, found neither",
            )
        return self

    @model_validator(mode="after")
    def _state_fits(self) -> Self:
        if self.state is None:
            return self
        if not isinstance(self.sink, PostgresSink) or self.sink.mode != "append":
            raise MistakeBelow(
                ("state",),
                "expected state only with sink.kind postgres and sink.mode append: rows are taken back by it",
            )
        return self


class Pipeline(Declaration):
    """A declaration with the name of its folder."""

    name: str
    folder: Path

    @property
    def table_sink(self) -> PostgresSink:
        """Return the sink of a pipeline that writes a table in the ledger's database.

        Raises:
            TypeError: The pipeline has another kind of sink.
        """
        if not isinstance(self.sink, PostgresSink):
            raise TypeError(f"{self.name}: expected a sink of kind postgres, found {self.sink.kind}")
        return self.sink

    def variables(self) -> dict[str, str]:
        """Return the names in each `{env: NAME}` that a Spark driver looks up, each with what it holds. Those of `notify` are for tasks."""
        return variables({"source": self.source, "sink": self.sink}, f"pipeline {self.name}")
