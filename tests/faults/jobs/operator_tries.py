"""Tries of the task `write` by Airflow's own operator, beside the test: all that it knows of Spark is in connection and properties file."""

import threading
import time
from collections.abc import Callable
from random import Random
from typing import Any

from faults.checker.facts import Violation
from faults.jobs import declared_orders, order_producer, orders
from faults.jobs.crashing_servers import Servers
from faults.jobs.job_verdict import verdict
from faults.jobs.order_outputs import Sink
from faults.jobs.rounds import TASK_S
from faults.jobs.write_progress import Moment, Witness
from tideline import flow
from tideline.airflow.spark_submit import write
from tideline.declaration import pipelines
from tideline.domain.requests import NewRecords
from tideline.kafka.broker import Broker
from tideline.ledger.connection import Ledger
from tideline.ledger.reservations import Run

RECORDS = 4_000


class Load:
    """A pipeline with records, whose run has planned them.

    Args:
        name: Of the pipeline.
        servers: Running servers. The variables of the environment lead to them.
        sink: What it writes to.
    """

    def __init__(self, name: str, servers: Servers, sink: Sink) -> None:
        self.servers = servers
        self.folder = servers.pipelines / name
        self.run = Run(dag_id=name, run_id="run_1")
        limits = {"batch_records": RECORDS, "split_records": 100}
        self.output = declared_orders.create(name, servers, sink, limits)
        order_producer.fill(servers.bootstrap, name, orders.records(Random(1), RECORDS), declared_orders.PARTITIONS)
        pipeline = pipelines.load_named(name)
        with Ledger(servers.url, actor="test") as ledger:
            self.batch_ids = flow.plan(ledger, Broker(pipeline.source), pipeline, self.run, NewRecords()).batch_ids
        self._witness = Witness(servers.url)

    def start_try(self, number: int) -> "Try":
        """Start a try of the task."""
        task = write(self.run.dag_id)
        task.application_args = [
            f"--pipeline={self.run.dag_id}", f"--batches={','.join(map(str, self.batch_ids))}",
            f"--dag-id={self.run.dag_id}", f"--run-id={self.run.run_id}", "--task-id=write", f"--try-number={number}",
        ]  # fmt: skip
        return Try(task)

    def verdict(self) -> tuple[list[Violation], int]:
        """Advance, and compare each record with the output and the ledger."""
        with Ledger(self.servers.url, actor="test") as ledger:
            flow.advance(ledger, self.run.dag_id, self.run)
        return verdict(self.servers.url, self.servers.bootstrap, self.output)

    def close(self) -> None:
        """End the session of the test."""
        self._witness.close()

    def is_writing(self) -> bool:
        """Return whether a driver has begun to read, and has not begun to publish."""
        standing = self._witness.standing(self.run.dag_id)
        return standing is not None and standing.moment in (Moment.READING, Moment.STAGING)


class Try:
    """A try that runs in a thread.

    Args:
        task: Airflow's operator, rendered.
    """

    def __init__(self, task: Any) -> None:
        self.task = task
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.task.pre_execute({})
            self.task.execute({})
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.error = error
        finally:
            self.spark_submit.stdout.close()  # Airflow leaves it to the end of the process

    @property
    def spark_submit(self) -> Any:
        """Return the process that Airflow has started."""
        return self.task._hook._submit_sp

    def ended(self) -> BaseException | None:
        """Return the error that it has ended with, or None if it has succeeded."""
        self._thread.join(TASK_S)
        assert not self._thread.is_alive(), "the task has not ended"
        return self.error

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until something is true, while the try runs."""
        deadline = time.monotonic() + TASK_S
        while not condition():
            assert self._thread.is_alive(), f"the task has ended before {what}: {self.error}"
            assert time.monotonic() < deadline, f"waited too long for {what}"
            time.sleep(0.02)
