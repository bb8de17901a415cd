"""The shape of one `pipeline.yaml`, as frozen values: which keys there are, their defaults, what each must be.

Never opens a file and never reads the environment, except where `Source.connection` is asked to. `tideline.declaration.pipelines`
makes these values and words the mistakes.
"""

from pathlib import Path
from typing import Annotated

from croniter import CroniterError, croniter  # type: ignore[import-untyped]  # it has no types
from pydantic import AfterValidator, Field

from tideline.declaration.sections import AboveZero, Name, Section, Text, ZeroOrAbove
from tideline.declaration.source import Source

__all__ = ["Declaration", "Limits", "Pipeline", "Rejects", "Section", "Sink", "Source", "Upkeep"]

_CRON_FIELDS = 5  # minute, hour, day, month, weekday: croniter takes seconds and years as well, Airflow does not


def _cron(value: str) -> str:
    try:
        croniter(value).get_next()  # also refuses what never comes, such as the 31st of February
        fits = len(value.split()) == _CRON_FIELDS
    except CroniterError:
        fits = False
    if not fits:
        raise ValueError(f"expected a cron expression of five fields, or null, found {value!r}")
    return value


class Sink(Section):
    """Where the rows go."""

    table: Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]{0,62}\.[a-z_][a-z0-9_]{0,62}$")] = Field(
        title="The output table", description="schema.table in lower case"
    )
    item: Name | None = Field(
        default=None,
        title="The column that tells the rows of one record apart, where a record becomes several",
        description="a column name in lower case",
    )
    shared: bool = Field(
        default=False,
        title="Whether other pipelines, which say so as well, write this table too",
        description="true or false",
    )


class Limits(Section):
    """How much one batch and one run may hold."""

    batch_records: AboveZero = Field(
        default=1_000_000, title="Most offsets in one batch", description="an integer above 0"
    )
    run_batches: AboveZero = Field(
        default=20, title="Most batches that one run plans anew", description="an integer above 0"
    )
    batch_bytes: AboveZero | None = Field(
        default=None,
        title="Bytes of keys and values that one batch aims at, by the average of what was loaded before",
        description="an integer above 0",
    )
    # A task costs as much CPU as some 15,000 JSON records, measured: in parts of this size that is 6 %, of 100,000 15 %.
    split_records: AboveZero = Field(
        default=250_000,
        title="Most offsets of one partition that one Spark task reads",
        description="an integer above 0",
    )
    # A driver that hangs beats for ever: without an end it would hold its offsets until a person comes.
    timeout_minutes: AboveZero = Field(
        default=240,
        title="Most minutes that one attempt at a batch takes, from its claim to its publish",
        description="an integer above 0",
    )


class Rejects(Section):
    """When rejected records fail a batch."""

    fail_above: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.5,
        title="The share of a batch's records above which it fails; counted once 100 of them are rejected",
        description="a number from 0 to 1",
    )


class Upkeep(Section):
    """What of the history is kept."""

    events_days: AboveZero | None = Field(
        default=None,
        title="Events of finished batches are deleted when they are older; null keeps them for ever",
        description="an integer above 0, or null",
    )


class Declaration(Section):
    """All that `pipeline.yaml` says."""

    description: Text = Field(title="Shown in Airflow", description="text")
    schedule: Annotated[str, AfterValidator(_cron)] | None = Field(
        default="0 * * * *",
        title="When a run starts",
        description="a cron expression of five fields (UTC), or null for only by hand",
    )
    retries: ZeroOrAbove = Field(default=2, title="Of each task", description="an integer, 0 or above")
    retry_delay_seconds: ZeroOrAbove = Field(
        default=60, title="Between two tries of a task", description="an integer, 0 or above"
    )
    wake_on_records: bool = Field(
        default=False, title="Whether a run starts as well when new records arrive", description="true or false"
    )
    source: Source
    sink: Sink
    limits: Limits = Limits()
    rejects: Rejects = Rejects()
    upkeep: Upkeep = Upkeep()


class Pipeline(Declaration):
    """A declaration with the name of its folder."""

    name: str
    folder: Path
