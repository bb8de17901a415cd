"""A pipeline whose load is struck a few times, by hand or by what runs it, and then finished."""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

from confluent_kafka.admin import AdminClient

from faults.checker.facts import Violation
from faults.jobs import order_producer, orders, read_back
from faults.jobs.crashing_servers import Servers
from faults.jobs.job_verdict import verdict
from faults.jobs.order_outputs import Output, Sink
from faults.jobs.rounds import TASK_S, Rounds
from faults.jobs.write_progress import Moment, Witness
from given_topics import topics

RECORDS, PARTITIONS = 6_000, 3
_LIMITS = {"batch_records": 2000, "run_batches": 3, "split_records": 500}
_TRANSFORMS = {Sink.UPSERT: "frame", Sink.FOLDED: "processor"}


class StruckLoad:
    """A load that goes on, with more records, until it was struck three times.

    Args:
        kind: The beginning of the pipeline's name.
        servers: Running servers. The variables of the environment lead to them.
        sink: What it writes to.
        folder: For logs.
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
        master: str = "local[2]",
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.servers = servers
        self.name = f"{kind}_{sink.name.lower()}_{os.getpid()}"
        self.output = Output(pipeline=self.name, sink=sink, lakes=servers.folder / "lakes")
        self.declared = servers.pipelines / self.name
        self.strikes_left = 3
        topics.created(AdminClient({"bootstrap.servers": servers.bootstrap}), self.name, partitions=PARTITIONS)
        read_back.create_topics(self.output, servers.bootstrap)
        self.fill()
        orders.declare(
            self.declared, self.name, self.output, transform=_TRANSFORMS.get(sink, "records"), limits=_LIMITS
        )
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
        sent = orders.records(Random(self.strikes_left), RECORDS)
        order_producer.fill(self.servers.bootstrap, self.name, sent, PARTITIONS)

    def _refill(self) -> bool:
        if self.strikes_left:
            self.fill()
        return bool(self.strikes_left)

    def strike(self, blow: Callable[["StruckLoad", int], bool]) -> None:
        """Strike while records are read or staged, as soon as there is something to hit.

        Args:
            blow: Gets this load and the number of the batch; returns whether it has hit something.
        """
        deadline = time.monotonic() + TASK_S
        while (batch_id := self._loading()) is None or not blow(self, batch_id):
            self.rounds.check()
            assert time.monotonic() < deadline, "nothing was found to strike"
            time.sleep(0.02)
        self.strikes_left -= 1

    def _loading(self) -> int | None:
        standing = self.witness.standing(self.name)
        is_loading = standing is not None and standing.moment in (Moment.READING, Moment.STAGING)
        return standing.batch_id if standing is not None and is_loading else None

    def verdict(self) -> tuple[list[Violation], int]:
        """Compare each record with the output and the ledger. Return the violations, and the number of records."""
        return verdict(self.servers.url, self.servers.bootstrap, self.output)

    def stop(self) -> None:
        """End the runs and their jobs at once."""
        self.rounds.stop()
        self.witness.close()
