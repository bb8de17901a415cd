"""Planning against brokers in memory and the real ledger: for logs that no real broker would make at will, and for what needs none."""

from typing import Any

from faults.memory import Cluster, MemoryBroker
from planners import NAME, declared, run
from tideline import flow
from tideline.domain.requests import NewRecords, Request
from tideline.flow import Plan
from tideline.ledger.connection import Ledger


class Brokerless:
    """A pipeline over the topic `ads`.

    Args:
        ledger: Whose session plans.
        ends: How many records each partition has.
        source: Keys of the declaration's section `source`.
        limits: Of the declaration.
    """

    def __init__(self, ledger: Ledger, *ends: int, source: dict[str, Any] | None = None, **limits: int) -> None:
        self.ledger = ledger
        self.cluster = Cluster()
        self.logs = self.cluster.create("ads", *ends).logs
        self.pipeline = declared("nowhere:9092", "ads", source=source, **limits)
        self.broker = MemoryBroker(self.cluster, self.pipeline.source)

    def ask(self, name: str, request: Request | None = None, *, reason: str | None = None) -> Plan:
        """What a run of that name is given."""
        wanted = request or NewRecords()
        return flow.plan(self.ledger, self.broker, self.pipeline, run(name), wanted, reason=reason)

    def plan(self, name: str, request: Request | None = None) -> list[int]:
        """The same, without notes."""
        return self.ask(name, request, reason="a test").batch_ids

    def advance(self, name: str) -> None:
        """The end of that run."""
        flow.advance(self.ledger, NAME, run(name))
