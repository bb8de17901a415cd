"""Batches that this process plans and publishes, for tests of what comes after them: so these need no run and no Spark."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from given_ledger import ledgers, states
from system import System
from tideline import flow
from tideline.declaration import pipelines
from tideline.domain.requests import NewRecords
from tideline.kafka.broker import Broker
from tideline.ledger.connection import Ledger
from tideline.ledger.reservations import Run


@contextmanager
def _session(system: System) -> Iterator[Ledger]:
    """Open a session of the administrator. What a declaration looks up is in this process's environment meanwhile."""
    with pytest.MonkeyPatch.context() as patched, Ledger(system.url, actor="test") as session:
        patched.setenv("TIDELINE_KAFKA", system.bootstrap)
        yield session


def _plan(system: System, session: Ledger, name: str, run_id: str) -> list[int]:
    declared = pipelines.load(system.folder / "pipelines" / name)
    run = Run(dag_id=name, run_id=run_id)
    return flow.plan(session, Broker(declared.source), declared, run, NewRecords()).batch_ids


def begin(system: System, name: str) -> None:
    """Let the ledger know the streams of a topic that holds no records yet."""
    with _session(system) as session:
        assert _plan(system, session, name, "begun by hand") == []


def load(system: System, name: str) -> list[int]:
    """Load what is new as far as the ledger can tell: no row is written. Return the batches."""
    with _session(system) as session:
        batch_ids = [ledgers.write(session, batch_id) for batch_id in _plan(system, session, name, "loaded by hand")]
        flow.advance(session, name, Run(dag_id=name, run_id="loaded by hand"))
    return batch_ids


def fold(system: System, name: str) -> list[int]:
    """Fold what is new into the states of no key. Return the batches."""
    with _session(system) as session:
        batch_ids = _plan(system, session, name, "folded by hand")
        for batch_id in batch_ids:
            states.folded(session, batch_id)
        flow.advance(session, name, Run(dag_id=name, run_id="folded by hand"))
    return batch_ids
