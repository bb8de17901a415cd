"""Single verbs with parameters that both ledgers must refuse."""

from typing import Any

import pytest

from faults.memory import MemoryLedger, record
from given_ledger.ledgers import PIPELINE, RUN, claim, plan
from tideline.domain.facts import PartitionFacts
from tideline.ledger import publishing
from tideline.ledger.attempts import Attempt
from tideline.ledger.database_errors import RefusedStatementError
from tideline.ledger.publishing import Written

WHY = "because"


def run(session: MemoryLedger, verb: str, **parameters: Any) -> int:
    """Execute a verb in a transaction of its own; return how many rows it touches."""
    with session.transaction():
        return session.run(verb, **parameters)


def refused(session: MemoryLedger, verb: str, **parameters: Any) -> str:
    """Return the law that refuses a verb: the name of its constraint, or its message."""
    with pytest.raises(RefusedStatementError) as caught:
        run(session, verb, **parameters)
    law = caught.value.diag.constraint_name or caught.value.diag.message_primary
    assert law is not None
    return law


def hole(
    stream: int, start: int = 0, end: int = 10, *, reason: str | None = WHY, by: str | None = None
) -> dict[str, Any]:
    """Return the parameters of `record_hole`."""
    return {"stream_id": stream, "start": start, "end": end, "hole": "skipped", "reason": reason, "decided_by": by}


def batch(
    kind: str = "live", *, pipeline: str = PIPELINE, reason: str | None = None, supersedes: int | None = None
) -> dict[str, Any]:
    """Return the parameters of `plan_batches` for one batch."""
    run_of = {"dag_id": RUN.dag_id, "run_id": RUN.run_id}
    return {
        "pipeline": pipeline,
        "kind": kind,
        **run_of,
        "supersedes": supersedes,
        "reason": reason,
        "outside": False,
        "stateful": False,
        "n_batches": 1,
    }


def planned(session: MemoryLedger, kind: str = "live") -> int:
    """Plan a batch without ranges."""
    with session.transaction():
        [row] = session.rows("plan_batches", **batch(kind))
    return int(row["batch_id"])


def reserved(
    batch_id: int, stream: int, start: int = 0, end: int = 10, *, log_start: int = 0, log_end: int = 100
) -> dict[str, Any]:
    """Return the parameters of `reserve_ranges` for one range."""
    bounds = {"starts": [start], "ends": [end], "log_starts": [log_start], "log_ends": [log_end]}
    return {"batch_ids": [batch_id], "stream_ids": [stream], "gaps_allowed": [False], **bounds}


def written(session: MemoryLedger, stream: int, start: int = 0, end: int = 10) -> Attempt:
    """Publish a batch."""
    attempt = claim(session, plan(session, {stream: (start, end)}))
    count = {"first_read": start, "last_read": end - 1, "n_read": end - start, "n_filtered": 0, "n_bytes": 0}
    record(session, attempt, counts=[{"stream_id": stream, **count}])
    facts = {stream: PartitionFacts(partition=0, log_start=0, end=end)}
    publishing.publish(
        session, attempt, lambda _: Written(n_written={stream: end - start}), facts=facts, filtered_by_difference=False
    )
    return attempt
