"""Both ledgers agree on which pipeline has claimed which table, and a replay takes only rows of its own pipeline."""

import pytest

from faults import records
from faults.memory import Cluster, MemoryBroker, MemoryLedger, MemorySink, record
from faults.memory.refusal_cases import refused, run
from given_ledger.ledgers import PIPELINE, RUN, claim, plan, start_streams
from given_ledger.planners import declared
from tideline import flow
from tideline.declaration.pipelines import Pipeline
from tideline.domain.facts import PartitionFacts
from tideline.domain.requests import NewRecords
from tideline.domain.states import BatchKind
from tideline.errors import FatalError
from tideline.ledger import publishing

TABLE = {"kind": "postgres", "place": "ads.output"}
TOPIC = {"kind": "kafka", "place": "c/ads"}


def claimed(
    session: MemoryLedger, pipeline: str, table: str, *, shared: bool, kind: str = "postgres", purpose: str = "rows"
) -> list[tuple[str, bool]]:
    """Return the claims that exclude a claim."""
    with session.transaction():
        rows = session.rows("claim_output", pipeline=pipeline, purpose=purpose, kind=kind, place=table, shared=shared)
    return [(row["pipeline"], row["shared"]) for row in rows]


def moved(session: MemoryLedger, reason: str, place: str) -> list[str]:
    """Return the place that a pipeline had, as a decision moves its claim."""
    with session.transaction():
        session.rows("set_reason", reason=reason)
        rows = session.rows("move_output", pipeline=PIPELINE, kind="postgres", place=place, shared=False)
    return [row["place"] for row in rows]


def test_both_ledgers_keep_a_table_for_those_who_share_it(session, mirrored):
    start_streams(session, 1, pipeline="one")
    start_streams(session, 1, pipeline="two")
    assert claimed(session, "one", "ads.output", shared=False) == []
    assert claimed(session, "two", "ads.output", shared=True) == [("one", False)]
    assert claimed(session, "one", "ads.output", shared=True) == []
    assert claimed(session, "two", "ads.output", shared=True) == []
    assert claimed(session, "two", "ads.output", shared=False) == [("one", True)]
    assert claimed(session, "two", "ads.other", shared=False) == []
    assert claimed(session, "one", "c/rejected", shared=True, kind="kafka", purpose="rejects") == []
    assert claimed(session, "two", "c/rejected", shared=True, kind="kafka", purpose="rejects") == []
    assert claimed(session, "two", "c/rejected", shared=False, kind="kafka") == [("one", True)]
    assert claimed(session, "two", "/lake", shared=False, kind="delta") == []
    assert run(session, "free_outputs", pipeline="two") == 2
    assert run(session, "free_outputs", pipeline="two") == 0
    mirrored.check()


def test_both_ledgers_move_the_output_of_a_pipeline_that_was_loaded_only_by_a_decision(session, mirrored, stream):
    assert claimed(session, PIPELINE, "ads.first", shared=False) == []
    assert claimed(session, PIPELINE, "ads.output", shared=False) == []
    claim(session, plan(session, {stream: (0, 10)}))
    assert claimed(session, PIPELINE, "ads.other", shared=False) == [(PIPELINE, False)]
    other = {"pipeline": PIPELINE, "kind": "postgres", "place": "ads.other", "shared": False}
    under_way = f"output ads.output of pipeline {PIPELINE} does not move: a batch of it is being written"
    assert refused(session, "move_output", **other) == under_way
    abandoned(session, 1)
    plan(session, {stream: (0, 10)})
    assert claimed(session, PIPELINE, "ads.first", shared=False) == []
    assert claimed(session, PIPELINE, "ads.output", shared=False) == []
    written(session, PIPELINE, {stream: (10, 20)}, range(10, 20))
    without = f"output ads.output of pipeline {PIPELINE} does not move without a reason: it has been loaded"
    assert refused(session, "move_output", **other) == without
    assert moved(session, "partitioned now", "ads.other") == ["ads.output"]
    assert moved(session, "partitioned now", "ads.other") == ["ads.other"]
    mirrored.check()


def test_both_ledgers_free_a_topic_of_rejects_that_is_not_declared_any_more(session, mirrored, stream):
    plan(session, {stream: (0, 10)})
    rejects = {"shared": True, "kind": "kafka", "purpose": "rejects"}
    assert claimed(session, PIPELINE, "c/bad", **rejects) == []
    to_itself = {"pipeline": PIPELINE, "purpose": "rows", "kind": "kafka", "place": "c/bad", "shared": False}
    assert refused(session, "claim_output", **to_itself) == "outputs_are_shared_by_consent"
    assert run(session, "free_rejects", pipeline=PIPELINE, place="c/bad") == 0
    assert run(session, "free_rejects", pipeline=PIPELINE, place=None) == 1
    assert claimed(session, PIPELINE, "c/bad", **rejects) == []
    assert run(session, "free_rejects", pipeline=PIPELINE, place="c/worse") == 1
    assert claimed(session, PIPELINE, "c/bad", shared=False, kind="kafka") == []
    assert has_loaded(session) == [False]
    claim(session, 1)
    assert has_loaded(session) == [True]
    mirrored.check()


def has_loaded(session: MemoryLedger) -> list[bool]:
    with session.transaction():
        return [row["has_loaded"] for row in session.rows("view_claims", pipeline=PIPELINE)]


def abandoned(session: MemoryLedger, batch_id: int) -> None:
    flow.abandon(session, batch_id, reason="a test", force=True)


def test_both_ledgers_refuse_the_same_claims(session, stream):
    plan(session, {stream: (0, 10)})
    rows = {"purpose": "rows", "shared": False}
    assert refused(session, "claim_output", pipeline="unknown", **TABLE, **rows) == "claimed_output_pipeline_fkey"
    places = [
        ("postgres", "output"),
        ("kafka", "ads"),
        ("kafka", "c/ads/x"),
        ("delta", "lake"),
        ("delta", "/" + "x" * 1000),
    ]
    for kind, place in places:
        refusal = refused(session, "claim_output", pipeline=PIPELINE, kind=kind, place=place, **rows)
        assert refusal == "place_fits_its_kind", place
    assert refused(session, "claim_output", pipeline=PIPELINE, kind="file", place="x", **rows) == "output_has_a_kind"
    for wrong in (
        {**TABLE, "purpose": "rejects", "shared": True},
        {**TOPIC, "purpose": "rejects", "shared": False},
        {**TOPIC, "purpose": "counts", "shared": True},
    ):
        assert refused(session, "claim_output", pipeline=PIPELINE, **wrong) == "output_has_a_purpose"
    assert claimed(session, PIPELINE, "ads.output", shared=False) == []
    open_ = f"output ads.output of pipeline {PIPELINE} is not free: batches of it are open"
    assert refused(session, "free_outputs", pipeline=PIPELINE) == open_


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
