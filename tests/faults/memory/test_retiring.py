"""Both ledgers agree on which pipelines are out of sight."""

import pytest

from faults.memory import Cluster, MemoryBroker, MemoryLedger
from faults.memory.refusal_cases import refused, run
from given_ledger.ledgers import PIPELINE, RUN, plan
from given_ledger.planners import declared
from tideline import flow
from tideline.domain.requests import NewRecords
from tideline.ledger.database_errors import RefusedStatementError


def retires(session: MemoryLedger, reason: str, *, retired: bool) -> int:
    """Return how many pipelines a decision has changed."""
    with session.transaction():
        session.rows("set_reason", reason=reason)
        return session.run("set_retired", pipeline=PIPELINE, retired=retired)


def test_both_ledgers_retire_a_pipeline_only_by_a_decision_and_without_open_batches(session, mirrored, stream):
    of_this = {"pipeline": PIPELINE, "retired": True}
    assert refused(session, "set_retired", **of_this) == f"pipeline {PIPELINE} is not retired without a reason"
    assert [retires(session, "given up", retired=True) for _ in range(2)] == [1, 0]
    assert [run(session, "set_retired", pipeline=name, retired=False) for name in (PIPELINE, PIPELINE, "x")] == [
        1,
        0,
        0,
    ]
    plan(session, {stream: (0, 10)})
    with pytest.raises(RefusedStatementError, match=f"pipeline {PIPELINE} is not retired: batches of it are open"):
        retires(session, "given up", retired=True)
    mirrored.check()


def test_both_ledgers_bring_a_pipeline_back_that_plans(session, mirrored):
    cluster = Cluster()
    cluster.create("ads", 3)
    one = declared("nowhere:9092", "ads", name="one")
    with session.transaction():
        session.rows("lock_pipeline", pipeline="one", idle_ms=60_000)
    assert flow.retire(session, "one", reason="given up")
    assert len(flow.plan(session, MemoryBroker(cluster, one.source), one, RUN, NewRecords()).batch_ids) == 1
    assert not flow.retire(session, "one", reason="needed", back=True)
    mirrored.check()
