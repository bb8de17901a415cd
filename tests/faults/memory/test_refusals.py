"""What Postgres refuses for streams and batches is refused in memory with the same message: each statement is sent to both, and both must agree."""

from faults.memory.refusal_cases import WHY, batch, planned, refused, reserved, run, written
from given_ledger.ledgers import PIPELINE, TOPIC_ID, claim, plan, start_streams
from tideline.ledger.connection import json


def test_a_stream_begins_once_and_never_below_zero(session, stream):
    topic = {"pipeline": PIPELINE, "cluster_id": "c", "topic": "ads", "topic_id": TOPIC_ID}
    again = refused(session, "start_stream", **topic, partition=0, start_offset=5, leader_epoch=None)
    assert again == "stream_pipeline_cluster_id_topic_id_partition_key"
    assert (
        refused(session, "start_stream", **topic, partition=-1, start_offset=0, leader_epoch=None)
        == "stream_partition_check"
    )
    assert (
        refused(session, "start_stream", **topic, partition=3, start_offset=-1, leader_epoch=None)
        == "stream_start_offset_check"
    )
    assert (
        refused(session, "start_stream", **topic, partition=3, start_offset=0, leader_epoch=-1)
        == "stream_leader_epoch_check"
    )
    other = {**topic, "pipeline": "unknown"}
    assert (
        refused(session, "start_stream", **other, partition=0, start_offset=5, leader_epoch=None)
        == "stream_pipeline_fkey"
    )


def test_a_retired_stream_never_changes(session, stream):
    run(session, "stop_stream", stream_id=stream, because="a cut")
    assert (
        refused(session, "resume_stream", stream_id=stream, accepted_end=-1, leader_epoch=None)
        == "stream_accepted_end_check"
    )
    run(session, "resume_stream", stream_id=stream, accepted_end=7, leader_epoch=3)
    run(session, "retire_stream", stream_id=stream)
    retired = f"stream {stream} is retired: it never changes"
    assert refused(session, "forget_cut", stream_id=stream) == retired
    assert refused(session, "keep_leader_epochs", stream_ids=[stream], leader_epochs=[4]) == retired
    run(session, "bring_back_stream", stream_id=stream, because="it is back")
    run(session, "keep_leader_epochs", stream_ids=[stream], leader_epochs=[4])


def test_a_batch_has_a_pipeline_and_a_reason_that_says_something(session, stream):
    assert refused(session, "plan_batches", **batch(reason="")) == "batch_reason_check"
    assert refused(session, "plan_batches", **batch(pipeline="unknown")) == "batch_pipeline_fkey"
    assert refused(session, "plan_batches", **batch(supersedes=77)) == "batch_supersedes_fkey"
    assert refused(session, "lock_pipeline", pipeline="No Name", idle_ms=60_000) == "pipeline_pipeline_check"


def test_a_range_is_free_when_it_is_reserved(session, stream):
    first = planned(session)
    run(session, "reserve_ranges", **reserved(first, stream))
    assert refused(session, "reserve_ranges", **reserved(first, stream, 20, 30)) == "batch_range_pkey"
    second = planned(session)
    assert refused(session, "reserve_ranges", **reserved(second, stream, 9, 12)) == "one_owner_per_offset"
    assert refused(session, "reserve_ranges", **reserved(second, stream, 20, 20)) == "offsets_check"
    assert refused(session, "reserve_ranges", **reserved(second, stream, -1, 20)) == "offsets_check"
    assert refused(session, "reserve_ranges", **reserved(second, stream, 20, 30, log_end=29)) == "planned_within_log"
    assert refused(session, "reserve_ranges", **reserved(second, stream, 20, 30, log_start=21)) == "planned_within_log"


def test_a_range_fits_the_kind_of_its_batch(session, stream):
    written(session, stream)
    live = refused(session, "reserve_ranges", **reserved(planned(session), stream, 5, 15))
    assert live == f"batch 2: live offsets [5,15) of stream {stream} are accounted for"
    backfill = refused(session, "reserve_ranges", **reserved(planned(session, "backfill"), stream, 5, 15))
    assert backfill == f"batch 3: offsets [5,15) of stream {stream} are loaded"
    replay = refused(session, "reserve_ranges", **reserved(planned(session, "replay"), stream, 5, 15))
    assert replay == f"batch 4: not all offsets [5,15) of stream {stream} are loaded"


def test_a_range_belongs_to_a_planned_batch_of_its_pipeline(session, stream):
    [elsewhere] = start_streams(session, 1, pipeline="other")
    first = planned(session)
    belongs = "batch 1: a range belongs to a planned batch of its stream's pipeline"
    assert refused(session, "reserve_ranges", **reserved(first, elsewhere)) == belongs
    claim(session, first)
    assert refused(session, "reserve_ranges", **reserved(first, stream)) == belongs


def test_a_run_has_batches_that_there_are(session, stream):
    run_of = {"pipeline": PIPELINE, "dag_id": "d", "run_id": "r"}
    assert refused(session, "join_run", **run_of, batch_ids=[77]) == "run_batch_batch_id_fkey"
    event = {"action": "retry", "stream_id": None, "attempt": None, "detail": json({})}
    assert refused(session, "record_event", pipeline=PIPELINE, batch_id=77, **event) == "event_batch_id_fkey"
    assert refused(session, "record_event", pipeline="unknown", batch_id=None, **event) == "event_pipeline_fkey"
    forged = refused(session, "record_event", pipeline=PIPELINE, batch_id=None, **event | {"action": "publish"})
    assert forged == 'INSERT of "publish" into tideline.event is refused: it is written with what it records'


def test_each_attempt_has_a_fence_of_its_own(session, stream):
    batch_id = plan(session, {stream: (0, 10)})
    claim(session, batch_id)
    writer = {"dag_id": "d", "run_id": "r", "task_id": "t", "try_number": 1, "host": "h", "pid": 1}
    again = refused(session, "start_attempt", batch_id=batch_id, fence=1, **writer)
    assert again == "attempt_batch_id_fence_key"
    assert refused(session, "start_attempt", batch_id=batch_id, fence=0, **writer) == "attempt_fence_check"
    assert refused(session, "start_attempt", batch_id=77, fence=1, **writer) == "attempt_batch_id_fkey"


def test_who_does_not_hold_a_batch_changes_nothing(session, mirrored, stream):
    batch_id = plan(session, {stream: (0, 10)})
    first, second = claim(session, batch_id), claim(session, batch_id)
    for attempt in (first, second):
        asked = {"batch_id": batch_id, "attempt": attempt.attempt}
        holds = attempt is second
        assert run(session, "beat", attempt=attempt.attempt) == holds
        assert run(session, "abandon_batch", batch_id=batch_id) == 0
        assert run(session, "claim_batch", **asked, fence=2) == 0
        assert run(session, "end_attempt", attempt=attempt.attempt, outcome="failed", problem=WHY) == holds
        assert run(session, "fail_batch", **asked) == holds
        assert run(session, "publish_batch", **asked) == 0
    assert run(session, "abandon_batch", batch_id=batch_id) == 1
    assert run(session, "abandon_batch", batch_id=batch_id) == 0
    assert run(session, "claim_batch", batch_id=batch_id, attempt=second.attempt, fence=3) == 0
    mirrored.check()


def test_a_stream_changes_only_from_the_state_that_is_expected(session, mirrored, stream):
    for verb, parameters, touched in (
        ("resume_stream", {"accepted_end": None, "leader_epoch": None}, 0),
        ("forget_cut", {}, 0),
        ("stop_stream", {"because": "a cut"}, 1),
        ("stop_stream", {"because": "another"}, 0),
        ("resume_stream", {"accepted_end": 5, "leader_epoch": 2}, 1),
        ("forget_cut", {}, 1),
        ("retire_stream", {}, 1),
        ("retire_stream", {}, 0),
        ("stop_stream", {"because": "a cut"}, 0),
    ):
        assert run(session, verb, stream_id=stream, **parameters) == touched
        assert run(session, verb, stream_id=77, **parameters) == 0
    mirrored.check()
