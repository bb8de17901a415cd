"""Single verbs, to be refused by both ledgers, and what they are given."""

from typing import Any

import psycopg2
import pytest

from faults.memory import MemoryLedger, record
from ledgers import PIPELINE, RUN, claim, plan
from tideline.domain.facts import PartitionFacts
from tideline.ledger import publishing
from tideline.ledger.attempts import Attempt
from tideline.ledger.publishing import Written

WHY = "because"


def run(session: MemoryLedger, verb: str, **parameters: Any) -> int:
    """How many rows a verb touches, in a transaction of its own."""
    with session.transaction():
        return session.run(verb, **parameters)


def refused(session: MemoryLedger, verb: str, **parameters: Any) -> str:
    """The law that refuses a verb, by the name of its constraint or in its words."""
    with pytest.raises(psycopg2.Error) as caught:
        run(session, verb, **parameters)
    return caught.value.diag.constraint_name or caught.value.diag.message_primary


def hole(
    stream: int, start: int = 0, end: int = 10, *, reason: str | None = WHY, by: str | None = None
) -> dict[str, Any]:
    """What `record_hole` is given."""
    return {"stream_id": stream, "start": start, "end": end, "hole": "skipped", "reason": reason, "decided_by": by}


def batch(
    kind: str = "live", *, pipeline: str = PIPELINE, reason: str | None = None, supersedes: int | None = None
) -> dict[str, Any]:
    """What `plan_batches` is given for one."""
    run_of = {"dag_id": RUN.dag_id, "run_id": RUN.run_id}
    return {"pipeline": pipeline, "kind": kind, **run_of, "supersedes": supersedes, "reason": reason, "n_batches": 1}


def planned(session: MemoryLedger, kind: str = "live") -> int:
    """A batch without ranges."""
    with session.transaction():
        return session.rows("plan_batches", **batch(kind))[0]["batch_id"]


def reserved(
    batch_id: int, stream: int, start: int = 0, end: int = 10, *, log_start: int = 0, log_end: int = 100
) -> dict[str, Any]:
    """What `reserve_ranges` is given for one."""
    bounds = {"starts": [start], "ends": [end], "log_starts": [log_start], "log_ends": [log_end]}
    return {"batch_ids": [batch_id], "stream_ids": [stream], "gaps_allowed": [False], **bounds}


def written(session: MemoryLedger, stream: int, start: int = 0, end: int = 10) -> Attempt:
    """A published batch."""
    attempt = claim(session, plan(session, {stream: (start, end)}))
    count = {"first_read": start, "last_read": end - 1, "n_read": end - start, "n_filtered": 0, "n_bytes": 0}
    record(session, attempt, counts=[{"stream_id": stream, **count}])
    facts = {stream: PartitionFacts(partition=0, log_start=0, end=end)}
    publishing.publish(
        session, attempt, lambda _: Written(n_written={stream: end - start}), facts=facts, filtered_by_difference=False
    )
    return attempt
