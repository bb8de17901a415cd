"""The model of one `pipeline.yaml`, as frozen values: its keys, their defaults and their types.

Opens no file. Reads the environment only in `Source.connection` and `Source.secrets`. `tideline.declaration.pipelines`
creates these values and writes the messages about mistakes.
"""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from tideline.declaration.airflow import Cron, Owner, Pool, Tags
from tideline.declaration.notify import Notify
from tideline.declaration.sections import AboveZero, Name, Section, Text, ZeroOrAbove
from tideline.declaration.source import Source
from tideline.declaration.spark import Spark

__all__ = ["Declaration", "Limits", "Notify", "Pipeline", "Rejects", "Section", "Sink", "Source", "Spark", "Upkeep"]


class Sink(Section):
    """The table that the rows are written to."""

    table: Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]{0,62}\.[a-z_][a-z0-9_]{0,62}$")] = Field(
        title="The target table", description="schema.table in lower case"
    )
    item: Name | None = Field(
        default=None,
        title="The column that distinguishes the rows of one record, where a record can become several rows",
        description="a column name in lower case",
    )
    shared: bool = Field(
        default=False,
        title="Whether other pipelines write this table too; each of them must set this key",
        description="true or false",
    )


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
    # Measured: a task costs as much CPU as some 15,000 JSON records. That is 6 % for parts of this size, and 15 % for parts of 100,000.
    split_records: AboveZero = Field(
        default=250_000,
        title="Maximum number of offsets of one partition that one Spark task reads",
        description="an integer above 0",
    )
    # A driver that hangs may still send heartbeats. Without this limit it would hold its offsets until an operator intervenes.
    timeout_minutes: AboveZero = Field(
        default=240,
        title="Maximum duration in minutes of one attempt at a batch, from its claim to its publish",
        description="an integer above 0",
    )


class Rejects(Section):
    """When rejected records fail a batch."""

    fail_above: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.5,
        title="A batch fails when the rejected share of its records is above this number and at least 100 records are rejected",
        description="a number from 0 to 1",
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
    limits: Limits = Limits()
    rejects: Rejects = Rejects()
    spark: Spark = Spark()
    notify: Notify = Notify()
    upkeep: Upkeep = Upkeep()


class Pipeline(Declaration):
    """A declaration with the name of its folder."""

    name: str
    folder: Path
