"""The output of a stateful pipeline: a table, and the states of its keys, published in the one transaction of the batch."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from psycopg2.sql import Identifier

from tideline.ledger import folding
from tideline.ledger.connection import Ledger
from tideline.ledger.folding import SUFFIX, StagedStates
from tideline.ledger.publishing import Written
from tideline.sinks.postgres import insertion, refusals, target_table
from tideline.sinks.postgres.insertion import StagedRows
from tideline.sinks.postgres.sink import TableOutput
from tideline.sinks.postgres.state_session import refused_row
from tideline.sinks.postgres.state_staging import StateStage
from tideline.sinks.postgres.target_table import sink_sql
from tideline.sinks.postgres.task_reports import EXPIRING, FOLDING, latest_of, report_of
from tideline.sinks.sink import StagingPlace, Winner
from tideline.sinks.staging_tables import STAGING_SCHEMA
from tideline.state.before import Before
from tideline.state.buckets import Buckets
from tideline.state.rules import Rules


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

    def stage(self, ledger: Ledger, place: StagingPlace) -> StateStage:
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

    def insert(self, ledger: Ledger, winners: Sequence[Winner]) -> Written:
        """Insert the rows, and change states and positions.

        Raises:
            TidelineError: See `insertion.insert_output` and `folding.publish_states`.
        """
        staged = self._staged(winners)
        written = insertion.insert_output(ledger, staged)
        folding.publish_states(ledger, self.table.attempt, self._states(winners, staged.table + SUFFIX))
        return written

    def find_refused(self, ledger: Ledger, winners: Sequence[Winner]) -> NoReturn:
        """Refuse the batch, and name the first record with a row that the table refuses.

        Raises:
            FatalError: The state has folded the record, so it cannot be a reject any more.
        """
        staged = self._staged(winners)
        first = refusals.find(ledger, staged)[0]
        names = {piece.stream_id: f"{piece.topic}/{piece.partition}" for piece in self.table.attempt.ranges}
        what = f"the record at {names.get(first.stream_id)} offset {first.offset}"
        raise refused_row(staged.target, what, first.reason)

    def _staged(self, winners: Sequence[Winner]) -> StagedRows:
        return replace(self.table.staged(winners), is_folded=True)

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
