"""The output of a stateful pipeline: a table, and the states of its keys, published in the one transaction of the batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from psycopg2.sql import Identifier

from spark_jobs.sinks.postgres import insertion, refusals, target_table
from spark_jobs.sinks.postgres.insertion import RowsRefusedError, Staged
from spark_jobs.sinks.postgres.refusals import FoundError
from spark_jobs.sinks.postgres.sink import TableOutput
from spark_jobs.sinks.postgres.state_session import refused_row
from spark_jobs.sinks.postgres.state_staging import StateStage
from spark_jobs.sinks.postgres.target_table import sink_sql
from spark_jobs.sinks.postgres.task_reports import EXPIRING, FOLDING, latest_of, report_of
from spark_jobs.sinks.sink import Place, Publication, Winner
from spark_jobs.sinks.staging_tables import STAGING_SCHEMA, staging_name
from spark_jobs.state.before import Before
from spark_jobs.state.buckets import Buckets
from spark_jobs.state.rules import Rules
from tideline import flow, job_log
from tideline.ledger import folding
from tideline.ledger.connection import Ledger
from tideline.ledger.folding import SUFFIX, StagedStates
from tideline.ledger.publishing import Counts, Written


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedTable:
    """Where the rows and the states of one attempt go."""

    table: TableOutput
    rules: Rules
    buckets: Buckets
    before: Before

    def describe(self) -> str:
        """Return the name of the table."""
        return self.table.describe()

    def stage(self, ledger: Ledger, place: Place) -> StateStage:
        """Create the attempt's staging tables for rows and for states, and return what each task needs to fill them.

        One transaction: a newer attempt that publishes drops the tables of this one, and could do so between two.
        """
        attempt = self.table.attempt
        with ledger.transaction():
            name = target_table.create_staging_in_transaction(ledger, self.table.target, attempt)
            ledger.run_sql(sink_sql("add_expired").format(staging=Identifier(STAGING_SCHEMA, name)), {})
            folding.create_staging(ledger, name + SUFFIX)
        return StateStage(
            place=place,
            pipeline=attempt.pipeline,
            target=self.table.target,
            table=name,
            rules=self.rules,
            buckets=self.buckets,
            streams=self.before.streams(self.rules),
            anew=self.before.anew,
        )

    def publish(self, publication: Publication) -> Sequence[Counts]:
        """Insert the rows, change states and positions, and publish the batch, in one transaction.

        Raises:
            FatalError: The table refuses a row. The state has folded its record, so the record cannot be a reject any more.
            TidelineError: See `flow.publish`, `insertion.insert_output` and `folding.publish_states`. Nothing is published.
        """
        attempt = self.table.attempt
        staged = Staged(
            target=self.table.target,
            attempt=attempt,
            table=staging_name(attempt),
            tasks={winner.task: winner.n_rows for winner in publication.winners},
            is_folded=True,
        )
        states = self._states(publication.winners, staged.table + SUFFIX)

        def insert_output(ledger: Ledger) -> Written:
            written = insertion.insert_output(ledger, staged)
            folding.publish_states(ledger, attempt, states)
            return written

        in_one_step = partial(
            flow.publish,
            publication.ledger,
            publication.broker,
            publication.pipeline,
            attempt,
            filtered_by_difference=publication.filtered_by_difference,
        )
        try:
            return in_one_step(insert_output)
        except RowsRefusedError as error:
            job_log.say(f"{error}; looking for the refused records")
        try:
            in_one_step(partial(refusals.find, staged=staged))
        except FoundError as found:
            first = found.records[0]
            names = {piece.stream_id: f"{piece.topic}/{piece.partition}" for piece in attempt.ranges}
            what = f"the record at {names.get(first.stream_id)} offset {first.offset}"
            raise refused_row(staged.target, what, first.reason) from None
        raise AssertionError("the trial of the records was not rolled back")

    def _states(self, winners: Sequence[Winner], table: str) -> StagedStates:
        reports = {winner.task: report_of(winner) for winner in winners}
        of_phase = {
            phase: {task: report.n_states for task, report in reports.items() if report.phase == phase}
            for phase in (FOLDING, EXPIRING)
        }
        return StagedStates(
            table=table,
            folding=of_phase[FOLDING],
            expiring=of_phase[EXPIRING],
            after=self.before.fold,
            positions=self.before.positions,
            max_times=latest_of(winners),
            processor=self.before.processor,
            columns=self.before.columns,
            n_expired=sum(report.n_expired for report in reports.values()),
            resets=self.before.resets,
        )

    def clear(self, ledger: Ledger) -> None:
        """Drop the staging tables of this and earlier attempts."""
        self.table.clear(ledger)
