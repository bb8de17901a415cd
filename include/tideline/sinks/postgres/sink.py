"""The Postgres sink as the Spark job uses it: staging tables that executors COPY to, and one transaction that publishes."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from tideline.declaration.pipelines import Pipeline
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger
from tideline.ledger.publishing import Written
from tideline.sinks import staging_tables
from tideline.sinks.postgres import insertion, refusals, target_table, upserting
from tideline.sinks.postgres.insertion import StagedRows
from tideline.sinks.postgres.staging import TableStage
from tideline.sinks.postgres.target_table import Target
from tideline.sinks.sink import Refused, StagingPlace, Winner
from tideline.sinks.staging_tables import staging_name


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOutput:
    """The table that an attempt writes to."""

    target: Target
    attempt: Attempt

    def describe(self) -> str:
        """Return the name of the table."""
        return self.target.name

    def stage(self, ledger: Ledger, place: StagingPlace) -> TableStage:
        """Create the attempt's staging table, and return what each task needs to COPY to it."""
        return TableStage(
            place=place, target=self.target, table=target_table.create_staging(ledger, self.target, self.attempt)
        )

    def insert(self, ledger: Ledger, winners: Sequence[Winner]) -> Written:
        """Insert the staged rows into the table. See `insertion.insert_output` and `upserting.insert_output` for the errors."""
        insert_output = upserting.insert_output if self.target.upsert else insertion.insert_output
        return insert_output(ledger, self.staged(winners))

    def find_refused(self, ledger: Ledger, winners: Sequence[Winner]) -> list[Refused]:
        """Return the records that the table refuses. See `refusals.find`."""
        return refusals.find(ledger, self.staged(winners))

    def staged(self, winners: Sequence[Winner]) -> StagedRows:
        """Return what the winning tasks have staged."""
        return StagedRows(
            target=self.target,
            attempt=self.attempt,
            table=staging_name(self.attempt),
            tasks={winner.task: winner.n_rows for winner in winners},
        )

    def clear(self, ledger: Ledger) -> None:
        """Drop the staging tables of this and earlier attempts."""
        staging_tables.drop(ledger, self.attempt)


class TableSink:
    """Tables in the ledger's database."""

    def prepare(self, ledger: Ledger, pipeline: Pipeline, attempt: Attempt, produced: pa.Schema) -> TableOutput:
        """Create the table if it does not exist, and check that it fits what the transform produces."""
        target = target_table.prepare(ledger, pipeline, produced)
        if target.upsert:
            upserting.prepare_marks(ledger, target)
        return TableOutput(target=target, attempt=attempt)
