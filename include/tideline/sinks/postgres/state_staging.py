"""Fold the records of one task, and stage the rows and the states. Runs in the executors' Python."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from tideline.ledger.connection import Ledger
from tideline.records.record_steps import Account
from tideline.sinks.postgres.copying import Copier
from tideline.sinks.postgres.state_session import StateSession
from tideline.sinks.postgres.target_table import Target
from tideline.sinks.postgres.task_reports import FOLDING, TaskReport
from tideline.sinks.sink import StagingPlace, Winner
from tideline.state import arrow_records
from tideline.state.buckets import Buckets
from tideline.state.folding import Fold, FoldedStream
from tideline.state.rules import Rules

_MOST_KEYS = 10_000
_STATE_BYTES = 256 << 20


def at_once(rules: Rules) -> int:
    """Return how many keys are held at once, so that their states fit into memory even if all are as large as they may be."""
    return max(1, min(_MOST_KEYS, _STATE_BYTES // rules.max_bytes))


@dataclass(frozen=True, slots=True, kw_only=True)
class StateStage:
    """Where an attempt reads states and stages rows and states. It is pickled with each task."""

    place: StagingPlace
    pipeline: str
    target: Target
    table: str
    rules: Rules
    buckets: Buckets
    streams: Mapping[int, FoldedStream]
    """As they are when the batch begins, by id."""
    anew: frozenset[str]
    """The streams whose stored states do not count any more."""

    def store(self, tables: Iterable[pa.Table], recorder: Account, task: int) -> Winner:
        """Fold records, and stage rows and states.

        Args:
            tables: The records in pieces, which are sorted by bucket, stream and first offset.
            recorder: Keeps the rejects.
            task: The task attempt id.

        Raises:
            FatalError: A timer has failed, or the table refuses a row.
        """
        fold = Fold(self.rules, self.streams)
        with self.session(task, FOLDING) as session:
            for of_bucket in self.buckets.unpacked(tables):
                for table in of_bucket:
                    self._fold(fold, table, session, recorder)
                session.put(fold.finish())
            session.flush()
        report = TaskReport(phase=FOLDING, n_states=session.n_states, n_expired=session.n_expired, latest=fold.latest)
        return report.winner(task, session.n_rows)

    def _fold(self, fold: Fold, table: pa.Table, session: StateSession, recorder: Account) -> None:
        records = arrow_records.records(table)
        stored = session.stored(fold.not_open(records))
        folded = fold.fold(records, {key: one for key, one in stored.items() if one.stream not in self.anew})
        if folded.rejected:
            numbers = pa.array([one.number for one in folded.rejected], pa.int64())
            kafka = table.column("kafka").combine_chunks()
            recorder.reject(arrow_records.STEP, kafka.take(numbers), [one.reason for one in folded.rejected])
        session.put(folded)

    @contextmanager
    def session(self, task: int, phase: int) -> Iterator[StateSession]:
        """Open the connections of one task."""
        with (
            Ledger(self.place.ledger_url, actor="spark task") as ledger,
            Copier(self.place.ledger_url, self.table, self.target.table) as copier,
        ):
            session = StateSession(
                place=self.place,
                pipeline=self.pipeline,
                target=self.target,
                table=self.table,
                rules=self.rules,
                ledger=ledger,
                copier=copier,
                task=task,
                phase=phase,
            )
            yield session
