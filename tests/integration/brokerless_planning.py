"""Planning against brokers in memory and the real ledger: for logs that a real broker would not make on request, and for tests without a broker."""

from typing import Any, Unpack

from faults.memory import Cluster, MemoryBroker
from planners import NAME, Limits, declared, run
from tideline import flow
from tideline.domain.requests import NewRecords, Request
from tideline.flow import Plan
from tideline.ledger.connection import Ledger


class Brokerless:
    """A pipeline over the topic `ads`.

    Args:
        ledger: The session that plans.
        ends: The number of records in each partition.
        source: Keys of the declaration's section `source`.
        limits: Limits of the declaration.
    """

    def __init__(
        self, ledger: Ledger, *ends: int, source: dict[str, Any] | None = None, **limits: Unpack[Limits]
    ) -> None:
        self.ledger = ledger
        self.cluster = Cluster()
        self.logs = self.cluster.create("ads", *ends).logs
        self.pipeline = declared("nowhere:9092", "ads", source=source, **limits)
        self.broker = MemoryBroker(self.cluster, self.pipeline.source)

    def ask(self, name: str, request: Request | None = None, *, reason: str | None = None) -> Plan:
        """Return the plan of a run of that name."""
        wanted = request or NewRecords()
        return flow.plan(self.ledger, self.broker, self.pipeline, run(name), wanted, reason=reason)

    def plan(self, name: str, request: Request | None = None) -> list[int]:
        """Return the batches of a run of that name."""
        return self.ask(name, request, reason="a test").batch_ids

    def advance(self, name: str) -> None:
        """Advance that run."""
        flow.advance(self.ledger, NAME, run(name))
