"""What a simulated process has at hand, where a real one has Spark, Airflow and a thread that ends it."""

import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from faults.memory import MemoryBroker, MemoryLedger
from faults.simulation.actors import SimulatedProcess
from faults.simulation.simulated_airflow import SimulatedAirflow
from spark_jobs import write_batches
from tideline import flow
from tideline.declaration.pipelines import Pipeline
from tideline.ledger.publications import Announcer


class NeverPasses(nullcontext):
    """Instead of the thread that ends an attempt which takes too long: a schedule kills processes wherever it likes."""

    has_passed = threading.Event()


@dataclass(slots=True)
class SimulatedSurroundings:
    """What a simulated process has at hand."""

    ledger: MemoryLedger
    broker: MemoryBroker
    pipeline: Pipeline
    check_written: Callable[[Sequence[int], Any], None]
    airflow: SimulatedAirflow
    running: SimulatedProcess | None

    def write(self, batch_ids: Sequence[int], writer: Any) -> None:
        """The real job, down to where Spark begins."""
        write_batches.write_all(self.ledger, self.pipeline, batch_ids, writer)
        self.check_written(batch_ids, writer)

    def announce(self, announcer: Announcer) -> None:
        """The real verb; a task of its own has a session of its own."""
        if self.ledger.connection.closed:
            self.ledger.reconnect()
        self.airflow.succeed(self.running, flow.announce(self.ledger, self.pipeline.name, announcer, self.airflow))
