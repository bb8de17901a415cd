"""A pipeline whose load is struck a few times, by hand or by what runs it, and then finished."""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

from faults.checker.facts import Violation
from faults.jobs import declared_orders, order_producer, orders
from faults.jobs.crashing_servers import Servers
from faults.jobs.job_verdict import verdict
from faults.jobs.order_outputs import Sink
from faults.jobs.rounds import TASK_S, Rounds
from faults.jobs.write_progress import Moment, Witness

_RUN_BATCHES = 3


class StruckLoad:
    """A load that goes on, with more records, until it was struck as often as it should be.

    Args:
        kind: The beginning of the pipeline's name.
        servers: Running servers. The variables of the environment lead to them.
        sink: What it writes to.
        folder: For logs.
        n_strikes: How often.
        batch: The records of a batch. Enough for three of them are sent at once.
        master: Spark's master.
        variables: More variables of drivers.
    """

    def __init__(
        self,
        kind: str,
        servers: Servers,
        sink: Sink,
        folder: Path,
        *,
        n_strikes: int = 3,
        batch: int = 2_000,
        master: str = "local[2]",
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.servers = servers
        self.name = f"{kind}_{sink.name.lower()}_{os.getpid()}"
        self.declared = servers.pipelines / self.name
        self.strikes_left = n_strikes
        self.n_records = _RUN_BATCHES * batch
        """The records that are sent at once."""
        self._struck: int | None = None
        limits = {"batch_records": batch, "run_batches": _RUN_BATCHES, "split_records": 500}
        self.output = declared_orders.create(self.name, servers, sink, limits)
        self.fill()
        self.witness = Witness(servers.url)
        self.rounds = Rounds(
            self.name,
            variables=servers.variables() | dict(variables or {}),
            logs=folder / "logs",
            master=master,
            refill=self._refill,
        )

    def fill(self) -> None:
        """Send more records."""
        sent = orders.records(Random(self.strikes_left), self.n_records)
        order_producer.fill(self.servers.bootstrap, self.name, sent, declared_orders.PARTITIONS)

    def _refill(self) -> bool:
        if not self.strikes_left:
            return False
        self.fill()
        return True  # whatever has struck meanwhile: what was just sent is to be loaded

    def strike(self, blow: Callable[["StruckLoad", int], bool]) -> None:
        """Strike while records are read or staged, as soon as there is something to hit, in a batch that was not struck yet.

        Args:
            blow: Gets this load and the number of the batch; returns whether it has hit something.
        """
        deadline = time.monotonic() + TASK_S
        while (batch_id := self._loading()) is None or not blow(self, batch_id):
            self.rounds.check()
            assert time.monotonic() < deadline, "nothing was found to strike"
            time.sleep(0.02)
        self.strikes_left -= 1
        self._struck = batch_id

    def _loading(self) -> int | None:
        standing = self.witness.standing(self.name)
        is_loading = standing is not None and standing.moment in (Moment.READING, Moment.STAGING)
        return standing.batch_id if standing is not None and is_loading and standing.batch_id != self._struck else None

    def verdict(self) -> tuple[list[Violation], int]:
        """Compare each record with the output and the ledger. Return the violations, and the number of records."""
        return verdict(self.servers.url, self.servers.bootstrap, self.output)

    def stop(self) -> None:
        """End the runs and their jobs at once."""
        self.rounds.stop()
        self.witness.close()
