"""What Postgres refuses is refused in memory as well, in the same words: each statement goes to both, and both must say the same."""

import psycopg2
import pytest

from faults import records
from faults.memory import MemorySink, record
from ledgers import PIPELINE, RUN, TOPIC_ID, claim, plan, start_streams
from tideline.domain.facts import PartitionFacts
from tideline.domain.states import BatchKind
from tideline.ledger import decisions, publishing
from tideline.ledger.connection import json
from tideline.ledger.publishing import Written

WHY = "because"
COUNT = {"first_read": 0, "last_read": 9, "n_read": 10, "n_filtered": 0, "n_bytes": 0}


@pytest.fixture
def stream(session):
    [stream_id] = start_streams(session, 1)
    return stream_id


def run(session, verb, **parameters):
    with session.transaction():
        return session.run(verb, **parameters)


def refused(session, verb, **parameters):
    """The law that refuses a verb, by the name of its constraint or in its words."""
    with pytest.raises(psycopg2.Error) as caught:
        run(session, verb, **parameters)
    return caught.value.diag.constraint_name or caught.value.diag.message_primary


def hole(stream, start=0, end=10, *, reason=WHY, by=None):
    return {"stream_id": stream, "start": start, "end": end, "hole": "skipped", "reason": reason, "decided_by": by}


def batch(kind="live", *, pipeline=PIPELINE, reason=None, supersedes=None):
    run_of = {"dag_id": RUN.dag_id, "run_id": RUN.run_id}
    return {"pipeline": pipeline, "kind": kind, **run_of, "supersedes": supersedes, "reason": reason}


def planned(session, kind="live"):
    with session.transaction():
        return session.rows("plan_batch", **batch(kind))[0]["batch_id"]


def reserved(batch_id, stream, start=0, end=10, *, log_start=0, log_end=100):
    bounds = {"start": start, "end": end, "log_start": log_start, "log_end": log_end}
    return {"batch_id": batch_id, "stream_id": stream, "gaps_allowed": False, **bounds}


def written(session, stream, start=0, end=10, *, kind=BatchKind.LIVE):
    """A published batch."""
    attempt = claim(session, plan(session, {stream: (start, end)}, kind=kind))
    count = {"first_read": start, "last_read": end - 1, "n_read": end - start, "n_filtered": 0, "n_bytes": 0}
    record(session, attempt, counts=[{"stream_id": stream, **count}])
    facts = {stream: PartitionFacts(partition=0, log_start=0, end=end)}
    publishing.publish(
        session, attempt, lambda _: Written(n_written={stream: end - start}), facts=facts, filtered_by_difference=False
    )
    return attempt


# Streams -----------------------------------------------------------------------------------------------------------


def test_a_stream_begins_once_and_never_below_zero(session, stream):
    topic = {"pipeline": PIPELINE, "cluster_id": "c", "topic": "ads", "topic_id": TOPIC_ID}
    again = refused(session, "start_stream", **topic, partition=0, start_offset=5)
    assert again == "stream_pipeline_cluster_id_topic_id_partition_key"
    assert refused(session, "start_stream", **topic, partition=-1, start_offset=0) == "stream_partition_check"
    assert refused(session, "start_stream", **topic, partition=3, start_offset=-1) == "stream_start_offset_check"
    other = {**topic, "pipeline": "nobody"}
    assert refused(session, "start_stream", **other, partition=0, start_offset=5) == "stream_pipeline_fkey"


def test_a_retired_stream_never_changes(session, stream):
    run(session, "stop_stream", stream_id=stream, because="a cut")
    assert refused(session, "resume_stream", stream_id=stream, accepted_end=-1) == "stream_accepted_end_check"
    run(session, "resume_stream", stream_id=stream, accepted_end=7)
    run(session, "retire_stream", stream_id=stream)
    assert refused(session, "forget_cut", stream_id=stream) == f"stream {stream} is retired: it never changes"


# Batches and their ranges ------------------------------------------------------------------------------------------


def test_a_batch_has_a_pipeline_and_a_reason_that_says_something(session, stream):
    assert refused(session, "plan_batch", **batch(reason="")) == "batch_reason_check"
    assert refused(session, "plan_batch", **batch(pipeline="nobody")) == "batch_pipeline_fkey"
    assert refused(session, "plan_batch", **batch(supersedes=77)) == "batch_supersedes_fkey"
    assert refused(session, "lock_pipeline", pipeline="No Name") == "pipeline_pipeline_check"


def test_a_range_is_free_when_it_is_reserved(session, stream):
    first = planned(session)
    run(session, "reserve_range", **reserved(first, stream))
    assert refused(session, "reserve_range", **reserved(first, stream, 20, 30)) == "batch_range_pkey"
    second = planned(session)
    assert refused(session, "reserve_range", **reserved(second, stream, 9, 12)) == "one_owner_per_offset"
    assert refused(session, "reserve_range", **reserved(second, stream, 20, 20)) == "offsets_check"
    assert refused(session, "reserve_range", **reserved(second, stream, -1, 20)) == "offsets_check"
    assert refused(session, "reserve_range", **reserved(second, stream, 20, 30, log_end=29)) == "planned_within_log"
    assert refused(session, "reserve_range", **reserved(second, stream, 20, 30, log_start=21)) == "planned_within_log"


def test_a_range_fits_the_kind_of_its_batch(session, stream):
    written(session, stream)
    live = refused(session, "reserve_range", **reserved(planned(session), stream, 5, 15))
    assert live == f"batch 2: live offsets [5,15) of stream {stream} are accounted for"
    backfill = refused(session, "reserve_range", **reserved(planned(session, "backfill"), stream, 5, 15))
    assert backfill == f"batch 3: offsets [5,15) of stream {stream} are loaded"
    replay = refused(session, "reserve_range", **reserved(planned(session, "replay"), stream, 5, 15))
    assert replay == f"batch 4: not all offsets [5,15) of stream {stream} are loaded"


def test_a_range_belongs_to_a_planned_batch_of_its_pipeline(session, stream):
    [elsewhere] = start_streams(session, 1, pipeline="other")
    first = planned(session)
    belongs = "batch 1: a range belongs to a planned batch of its stream's pipeline"
    assert refused(session, "reserve_range", **reserved(first, elsewhere)) == belongs
    claim(session, first)
    assert refused(session, "reserve_range", **reserved(first, stream)) == belongs


def test_a_run_has_batches_that_there_are(session, stream):
    run_of = {"pipeline": PIPELINE, "dag_id": "d", "run_id": "r"}
    assert refused(session, "join_run", **run_of, batch_id=77) == "run_batch_batch_id_fkey"
    event = {"action": "retry", "stream_id": None, "attempt": None, "detail": json({})}
    assert refused(session, "record_event", pipeline=PIPELINE, batch_id=77, **event) == "event_batch_id_fkey"
    assert refused(session, "record_event", pipeline="nobody", batch_id=None, **event) == "event_pipeline_fkey"


def test_each_attempt_has_a_fence_of_its_own(session, stream):
    batch_id = plan(session, {stream: (0, 10)})
    claim(session, batch_id)
    writer = {"dag_id": "d", "run_id": "r", "task_id": "t", "try_number": 1, "host": "h", "pid": 1}
    again = refused(session, "start_attempt", batch_id=batch_id, fence=1, **writer)
    assert again == "attempt_batch_id_fence_key"
    assert refused(session, "start_attempt", batch_id=batch_id, fence=0, **writer) == "attempt_fence_check"
    assert refused(session, "start_attempt", batch_id=77, fence=1, **writer) == "attempt_batch_id_fkey"


# Counts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("law", "count", "told"),
    [
        ("counts_add_up", {}, {"n_written": 9}),
        ("gaps_are_allowed", {"n_read": 9}, {"n_written": 9}),
        ("end_not_behind", {}, {"end": 9}),
        ("counts_together", {}, {"facts": {}}),
        ("read_within_range", {"first_read": 1, "last_read": 10}, {}),
        ("batch_range_n_gap_check", {"n_read": 11}, {"n_written": 11}),
        ("batch_range_n_filtered_check", {}, {"n_written": 11, "by_difference": True}),
    ],
)
def test_counts_that_do_not_add_up_are_refused(session, stream, law, count, told):
    attempt = claim(session, plan(session, {stream: (0, 10)}))
    record(session, attempt, counts=[{"stream_id": stream, **COUNT, **count}])
    assert refused(session, "record_counts", **counts(attempt, stream, **told)) == law


def counts(attempt, stream, *, n_written=10, end=10, log_start=0, facts=None, by_difference=False):
    told = {str(stream): {"log_start": log_start, "end": end}} if facts is None else facts
    return {
        "batch_id": attempt.batch_id,
        "attempt_id": attempt.attempt_id,
        "filtered_by_difference": by_difference,
        "written": json([{"stream_id": stream, "n_written": n_written}]),
        "facts": json(told),
    }


def test_gaps_that_retention_may_have_made_are_refused(session, stream):
    attempt = claim(session, plan(session, {stream: (0, 10)}, gaps_allowed=True))
    record(session, attempt, counts=[{"stream_id": stream, **COUNT, "n_read": 9}])
    told = counts(attempt, stream, n_written=9, log_start=1)
    assert refused(session, "record_counts", **told) == "retention_not_ahead"
    run(session, "record_counts", **counts(attempt, stream, n_written=9))


def test_counts_of_what_is_published_never_change(session, stream):
    attempt = written(session, stream)
    told = counts(attempt, stream)
    assert refused(session, "record_counts", **told) == "batch 1 is published: its counts never change"


def test_a_batch_without_counts_cannot_be_published(session, stream):
    attempt = claim(session, plan(session, {stream: (0, 10)}))
    asked = {"batch_id": attempt.batch_id, "attempt": attempt.attempt}
    assert refused(session, "publish_batch", **asked) == "batch 1: a batch without counts cannot be published"


def test_a_record_is_counted_once(session, stream):
    attempt = claim(session, plan(session, {stream: (0, 10)}))
    staged = {"attempt_id": attempt.attempt_id, "stream_id": stream, **COUNT}
    run(session, "stage_count", **staged)
    run(session, "stage_count", **staged)
    assert refused(session, "stage_count", **{**staged, "first_read": 9, "last_read": 12}) == "counted_once"
    assert refused(session, "stage_count", **{**staged, "first_read": 20}) == "staged_count_check"
    assert refused(session, "stage_count", **{**staged, "attempt_id": 77}) == "staged_count_attempt_id_fkey"


# Coverage ----------------------------------------------------------------------------------------------------------


def test_a_hole_has_a_reason_and_a_name_and_lies_where_nobody_has_anything(session, stream):
    assert refused(session, "record_hole", **hole(stream, reason=None)) == "holes_have_a_name"
    assert refused(session, "record_hole", **hole(stream, reason="")) == "coverage_reason_check"
    assert refused(session, "record_hole", **hole(stream, by="")) == "coverage_decided_by_check"
    assert refused(session, "record_hole", **hole(stream, 5, 5)) == "offsets_check"
    plan(session, {stream: (0, 10)})
    reserves = refused(session, "record_hole", **hole(stream, 9, 12))
    assert reserves == f"offsets [9,12) of stream {stream} are reserved by a batch: no hole"
    run(session, "record_hole", **hole(stream, 20, 30))
    assert refused(session, "record_hole", **hole(stream, 29, 31)) == "one_owner_in_output"


def test_only_what_is_published_covers_anything(session, stream):
    batch_id = plan(session, {stream: (0, 10)})
    assert refused(session, "cover_batch", batch_id=batch_id) == f"batch 1 has not published [0,10) of stream {stream}"
    written(session, stream, 20, 30)
    assert refused(session, "cover_batch", batch_id=2) == "one_owner_in_output"


def test_what_is_accounted_for_stays_so_when_the_transaction_ends(session, stream):
    attempt = written(session, stream)
    lost = refused(session, "uncover_ranges", batch_id=attempt.batch_id)
    assert lost == f"offsets of [0,10) of stream {stream} would no longer be accounted for"


# Rejects, staging and output ---------------------------------------------------------------------------------------


def test_a_record_is_rejected_once(session, stream):
    rejects = [(stream, 3, "decode", WHY, None, None, b"x", None)]
    attempt = claim(session, plan(session, {stream: (0, 10)}))
    record(session, attempt, rejects=rejects)
    record(session, attempt, rejects=rejects)
    moved = {"batch_id": attempt.batch_id, "attempt_id": attempt.attempt_id}
    assert run(session, "move_rejects", **moved) == 1
    assert refused(session, "move_rejects", **moved) == "reject_pkey"
    redrive = plan(session, {stream: (0, 10)}, kind=BatchKind.REDRIVE)
    asked = {"batch_id": redrive, "stream_ids": [stream, stream], "offsets": [3, 3]}
    assert refused(session, "plan_redrive", **asked) == "redrive_pkey"
    asked = {"batch_id": attempt.batch_id, "stream_ids": [77], "offsets": [3]}
    assert refused(session, "plan_redrive", **asked) == "redrive_batch_id_stream_id_fkey"


def test_the_output_has_a_row_once_and_a_staging_table_may_be_gone(session, mirrored, stream):
    sink = MemorySink(mirrored, "ads.output", records.OUTPUT, item="item")
    attempt = claim(session, plan(session, {stream: (0, 10)}))
    staging = sink.create_staging(session, attempt)
    row = (stream, 3, (1, 0, "name", 1))
    assert sink.copy(staging, 1, [row, row]) == 2
    with pytest.raises(Exception, match="table-refuses-rows") as caught, session.transaction():
        sink.insert_output(attempt, staging, {1: 2})(session)
    assert caught.value.__cause__.diag.constraint_name == "output_pkey"
    sink.drop_staging(session, attempt)
    with pytest.raises(psycopg2.errors.UndefinedTable):
        sink.copy(staging, 1, [row])


def test_after_a_refusal_a_transaction_does_nothing_more(session, stream):
    def goes_on():
        with session.transaction():
            with pytest.raises(psycopg2.errors.CheckViolation):
                session.run("record_hole", **hole(stream, reason=""))
            decisions.set_reason(session, WHY)

    with pytest.raises(psycopg2.errors.InFailedSqlTransaction):
        goes_on()
    assert run(session, "record_hole", **hole(stream)) == 1
