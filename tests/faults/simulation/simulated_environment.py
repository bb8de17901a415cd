"""Provide a simulated process with what a real one gets from Spark, from Airflow and from its deadline thread."""

import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from faults.memory import MemoryBroker, MemoryLedger
from faults.simulation.actors import SimulatedProcess
from faults.simulation.simulated_airflow import SimulatedAirflow
from tideline import flow
from tideline.declaration.pipelines import Pipeline
from tideline.ledger.publications import Announcer
from tideline.spark_jobs import write_batches


class NeverPasses(nullcontext[None]):
    """Replace the thread that ends an attempt which takes too long. Schedules kill processes at any point, so it is
    not needed."""

    has_passed = threading.Event()


@dataclass(slots=True)
class SimulatedSurroundings:
    """The resources of a simulated process; see `faults.actions.Surroundings`."""

    ledger: MemoryLedger
    broker: MemoryBroker
    pipeline: Pipeline
    check_written: Callable[[Sequence[int], Any], None]
    airflow: SimulatedAirflow
    running: SimulatedProcess | None

    def write(self, batch_ids: Sequence[int], writer: Any) -> None:
        """Run the real job down to where Spark begins."""
        write_batches.write_all(self.ledger, self.pipeline, batch_ids, writer)
        self.check_written(batch_ids, writer)

    def announce(self, announcer: Announcer) -> None:
        """Call the real verb. A separate task has its own session, so a closed one is opened again."""
        if self.ledger.connection.closed:
            self.ledger.reconnect()
        self.airflow.succeed(self.running, flow.announce(self.ledger, self.pipeline.name, announcer, self.airflow))
