"""Both ledgers agree on which pipeline has claimed which table, and a replay takes only rows of its own pipeline."""

import pytest

from faults import records
from faults.memory import Cluster, MemoryBroker, MemoryLedger, MemorySink, record
from faults.memory.refusal_cases import refused, run
from ledgers import PIPELINE, RUN, claim, plan, start_streams
from planners import declared
from tideline import flow
from tideline.declaration.pipelines import Pipeline
from tideline.domain.facts import PartitionFacts
from tideline.domain.requests import NewRecords
from tideline.domain.states import BatchKind
from tideline.errors import FatalError
from tideline.ledger import publishing


def claimed(session: MemoryLedger, pipeline: str, table: str, *, shared: bool) -> list[tuple[str, bool]]:
    """Return the claims that exclude a claim."""
    with session.transaction():
        rows = session.rows("claim_table", pipeline=pipeline, table=table, shared=shared)
    return [(row["pipeline"], row["shared"]) for row in rows]


def test_both_ledgers_keep_a_table_for_those_who_share_it(session, mirrored):
    start_streams(session, 1, pipeline="one")
    start_streams(session, 1, pipeline="two")
    assert claimed(session, "one", "ads.output", shared=False) == []
    assert claimed(session, "two", "ads.output", shared=True) == [("one", False)]
    assert claimed(session, "one", "ads.output", shared=True) == []
    assert claimed(session, "two", "ads.output", shared=True) == []
    assert claimed(session, "two", "ads.output", shared=False) == [("one", True)]
    assert claimed(session, "two", "ads.other", shared=False) == []
    assert run(session, "free_table", pipeline="two") == 1
    assert run(session, "free_table", pipeline="two") == 0
    mirrored.check()


def test_both_ledgers_refuse_the_same_claims(session, stream):
    plan(session, {stream: (0, 10)})
    unknown = {"pipeline": "unknown", "table": "ads.output", "shared": False}
    assert refused(session, "claim_table", **unknown) == "output_table_pipeline_fkey"
    nowhere = {"pipeline": PIPELINE, "table": "output", "shared": False}
    assert refused(session, "claim_table", **nowhere) == "output_table_table_name_check"
    assert claimed(session, PIPELINE, "ads.output", shared=False) == []
    open_ = f"table ads.output of pipeline {PIPELINE} is not free: batches of it are open"
    assert refused(session, "free_table", pipeline=PIPELINE) == open_


def test_a_plan_asks_who_has_its_table(session):
    cluster = Cluster()
    cluster.create("ads", 3)
    one, two = (declared("nowhere:9092", "ads", name=name) for name in ("one", "two"))

    def planned(pipeline: Pipeline) -> list[int]:
        return flow.plan(session, MemoryBroker(cluster, pipeline.source), pipeline, RUN, NewRecords()).batch_ids

    assert len(planned(one)) == 1
    with pytest.raises(FatalError, match=r"two: expected table ads\.output for itself, found that pipeline one"):
        planned(two)


def test_two_pipelines_on_one_table_are_the_same_in_both(session, mirrored):
    """Alternate records between two pipelines; one of them replays a part."""
    for pipeline, remainder in (("one", 0), ("two", 1)):
        (stream,) = start_streams(session, 1, pipeline=pipeline)
        written(session, pipeline, {stream: (0, 10)}, range(remainder, 10, 2))
    written(session, "one", {1: (3, 8)}, range(4, 8, 2), BatchKind.REPLAY)
    mirrored.check()
    table = mirrored.outputs["ads", "output"]
    owners = {row.kafka_offset: row.batch_id for row in table.rows.values()}
    assert owners == {0: 1, 1: 2, 2: 1, 3: 2, 4: 3, 5: 2, 6: 3, 7: 2, 8: 1, 9: 2}


def written(
    session: MemoryLedger,
    pipeline: str,
    piece: dict[int, tuple[int, int]],
    offsets: range,
    kind: BatchKind = BatchKind.LIVE,
) -> None:
    """Write a batch over a range of one stream in which only some offsets become rows."""
    sink = MemorySink(session.database, "ads.output", records.OUTPUT, item="item")
    attempt = claim(session, plan(session, piece, pipeline=pipeline, kind=kind))
    staging = sink.create_staging(session, attempt)
    [(stream, (start, end))] = piece.items()
    n_rows = sink.copy(staging, 1, [(stream, offset, (offset, 0, "a name", None)) for offset in offsets])
    count = {"first_read": start, "last_read": end - 1, "n_read": end - start, "n_bytes": 0}
    record(session, attempt, counts=[{"stream_id": stream, "n_filtered": end - start - n_rows, **count}])
    facts = {stream: PartitionFacts(partition=0, log_start=0, end=end)}
    insert = sink.insert_output(attempt, staging, {1: n_rows})
    publishing.publish(session, attempt, insert, facts=facts, filtered_by_difference=False)
    sink.drop_staging(session, attempt)
