"""The Postgres sink as the Spark job uses it: staging tables that executors COPY to, and one transaction that publishes."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from spark_jobs.sinks import staging_tables
from spark_jobs.sinks.postgres import marks, publishing, target_table
from spark_jobs.sinks.postgres.insertion import Staged
from spark_jobs.sinks.postgres.staging import TableStage
from spark_jobs.sinks.postgres.target_table import Target
from spark_jobs.sinks.sink import Place, Publication
from spark_jobs.sinks.staging_tables import staging_name
from tideline.declaration.pipelines import Pipeline
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger
from tideline.ledger.publishing import Counts


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOutput:
    """The table that an attempt writes to."""

    target: Target
    attempt: Attempt

    def describe(self) -> str:
        """Return the name of the table."""
        return self.target.name

    def stage(self, ledger: Ledger, place: Place) -> TableStage:
        """Create the attempt's staging table, and return what each task needs to COPY to it."""
        return TableStage(
            place=place, target=self.target, table=target_table.create_staging(ledger, self.target, self.attempt)
        )

    def publish(self, publication: Publication) -> Sequence[Counts]:
        """Insert the staged rows and publish the batch in one transaction. Records that the table refuses become rejects."""
        staged = Staged(
            target=self.target,
            attempt=self.attempt,
            table=staging_name(self.attempt),
            tasks={winner.task: winner.n_rows for winner in publication.winners},
        )
        return publishing.publish(publication, staged)

    def clear(self, ledger: Ledger) -> None:
        """Drop the staging tables of this and earlier attempts."""
        staging_tables.drop(ledger, self.attempt)


class PostgresSink:
    """Tables in the ledger's database."""

    def prepare(self, ledger: Ledger, pipeline: Pipeline, attempt: Attempt, produced: pa.Schema) -> TableOutput:
        """Create the table if it does not exist, and check that it fits what the transform produces."""
        target = target_table.prepare(ledger, pipeline, produced)
        if target.upsert:
            marks.prepare(ledger, target)
        return TableOutput(target=target, attempt=attempt)
