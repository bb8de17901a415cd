"""Simulate the part of Airflow that the outbox uses: which tasks are running, and the asset events of succeeded
tasks."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from uuid import UUID

from faults.schedule_runner import DagRun
from tideline.ledger.publications import Announcer, PublishedBatch


class SimulatedAirflow:
    """See `tideline.flow.advancing.AssetEvents`.

    Args:
        on_question: Called before each question: other processes may run there.
    """

    def __init__(self, on_question: Callable[[], object]) -> None:
        self.runs: Sequence[DagRun] = ()
        """All runs of the schedule."""
        self.events: list[tuple[int, UUID]] = []
        """Batch and attempt of each event."""
        self._on_question = on_question

    def may_succeed(self, announcer: Announcer) -> bool:
        self._on_question()
        return any(
            (run.run.dag_id, run.run.run_id) == (announcer.dag_id, announcer.run_id)
            and run.process is not None
            and run.task == 2
            for run in self.runs
        )

    def announced(self, since: datetime) -> set[UUID]:
        self._on_question()
        return {attempt for _, attempt in self.events}

    def succeed(self, process: object, publications: Iterable[PublishedBatch]) -> None:
        """Keep the events of a process if it is the current try of its task; refuse those of other processes."""
        if any(run.process is process for run in self.runs):
            self.keep(publications)

    def keep(self, publications: Iterable[PublishedBatch]) -> None:
        """Keep the events of a succeeded task."""
        self.events += [(publication.batch_id, publication.attempt) for publication in publications]
