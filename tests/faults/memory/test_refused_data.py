"""What Postgres refuses for counts, coverage, rejects and output is refused in memory as well.

Each statement is sent to both, and both must agree.
"""

from uuid import UUID

import psycopg2
import pytest

from faults import records
from faults.memory import MemorySink, record
from faults.memory.refusal_cases import WHY, hole, refused, run, written
from given_ledger.ledgers import claim, plan
from tideline.domain.states import BatchKind
from tideline.errors import RetryableError
from tideline.ledger import attempts, decisions
from tideline.ledger.connection import json
from tideline.ledger.database_errors import RefusedStatementError

COUNT = {"first_read": 0, "last_read": 9, "n_read": 10, "n_filtered": 0, "n_bytes": 0}


@pytest.mark.parametrize(
    ("law", "count", "changes"),
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
def test_counts_that_do_not_add_up_are_refused(session, stream, law, count, changes):
    attempt = claim(session, plan(session, {stream: (0, 10)}))
    record(session, attempt, counts=[{"stream_id": stream, **COUNT, **count}])
    assert refused(session, "record_counts", **counts(attempt, stream, **changes)) == law


def counts(attempt, stream, *, n_written=10, end=10, log_start=0, facts=None, by_difference=False):
    broker_facts = {str(stream): {"log_start": log_start, "end": end}} if facts is None else facts
    return {
        "batch_id": attempt.batch_id,
        "attempt_id": attempt.attempt_id,
        "filtered_by_difference": by_difference,
        "written": json([{"stream_id": stream, "n_written": n_written}]),
        "facts": json(broker_facts),
    }


def test_gaps_that_retention_may_have_made_are_refused(session, stream):
    attempt = claim(session, plan(session, {stream: (0, 10)}, gaps_allowed=True))
    record(session, attempt, counts=[{"stream_id": stream, **COUNT, "n_read": 9}])
    parameters = counts(attempt, stream, n_written=9, log_start=1)
    assert refused(session, "record_counts", **parameters) == "retention_not_ahead"
    run(session, "record_counts", **counts(attempt, stream, n_written=9))


def test_counts_of_what_is_published_never_change(session, stream):
    attempt = written(session, stream)
    parameters = counts(attempt, stream)
    assert refused(session, "record_counts", **parameters) == "batch 1 is published: its counts never change"


def test_a_batch_without_counts_cannot_be_published(session, stream):
    attempt = claim(session, plan(session, {stream: (0, 10)}))
    asked = {"batch_id": attempt.batch_id, "attempt": attempt.attempt}
    assert refused(session, "publish_batch", **asked) == "batch 1: a batch without counts cannot be published"


def test_a_record_is_counted_once(session, stream):
    attempt = claim(session, plan(session, {stream: (0, 10)}))
    staged = {"attempt": attempt.attempt, "stream_ids": [stream], **{name: [n] for name, n in COUNT.items()}}
    run(session, "stage_counts", **staged)
    run(session, "stage_counts", **staged)
    assert refused(session, "stage_counts", **{**staged, "first_read": [9], "last_read": [12]}) == "counted_once"
    assert refused(session, "stage_counts", **{**staged, "first_read": [20]}) == "staged_count_check"
    assert refused(session, "stage_counts", **{**staged, "attempt": UUID(int=77)}) == "attempt_is_known"


def test_a_hole_has_a_reason_and_a_name_and_covers_only_free_offsets(session, stream):
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


def test_a_record_is_rejected_once(session, stream):
    rejects = [(stream, 3, "decode", WHY, None, None, b"x", None)]
    attempt = claim(session, plan(session, {stream: (0, 10)}))
    record(session, attempt, rejects=rejects)
    record(session, attempt, rejects=rejects)
    moved = {"batch_id": attempt.batch_id, "attempt_id": attempt.attempt_id}
    assert run(session, "move_rejects", **moved) == 1
    assert refused(session, "move_rejects", **moved) == "reject_pkey"


def test_a_reject_is_in_one_open_re_drive(session, stream):
    attempt = claim(session, plan(session, {stream: (0, 10)}))
    record(session, attempt, rejects=[(stream, 3, "decode", WHY, None, None, b"x", None)])
    run(session, "move_rejects", batch_id=attempt.batch_id, attempt_id=attempt.attempt_id)
    taking = [plan(session, {stream: (0, 10)}, kind=BatchKind.REDRIVE) for _ in range(2)]
    asked = {"of_batch": None, "reason_like": None}
    assert run(session, "plan_redrive", batch_ids=taking[:1], **asked | {"reason_like": "another"}) == 0
    assert run(session, "plan_redrive", batch_ids=taking[:1], **asked | {"of_batch": taking[1]}) == 0
    assert run(session, "plan_redrive", batch_ids=taking[:1], **asked) == 1
    assert run(session, "plan_redrive", batch_ids=taking, **asked) == 0
    assert run(session, "abandon_batch", batch_id=taking[0]) == 1
    assert refused(session, "plan_redrive", batch_ids=taking[:1], **asked) == "redrive_pkey"
    assert run(session, "plan_redrive", batch_ids=taking[1:], **asked) == 1


def test_the_output_has_a_row_once_and_a_staging_table_may_be_gone(session, mirrored, stream):
    sink = MemorySink(mirrored, "ads.output", records.OUTPUT, item="item")
    attempt = claim(session, plan(session, {stream: (0, 10)}))
    staging = sink.create_staging(session, attempt)
    row = (stream, 3, (1, 0, "name", 1))
    assert sink.copy(staging, 1, [row, row]) == 2
    with pytest.raises(Exception, match="refuses rows: duplicate key") as caught, session.transaction():
        sink.insert_output(attempt, staging, {1: 2})(session)
    assert caught.value.__cause__.diag.constraint_name == "output_pkey"
    with pytest.raises(RefusedStatementError, match="its attempt holds batch"):
        sink.drop_staging(session, attempt)
    attempts.fail(session, attempt, "a problem")
    sink.drop_staging(session, attempt)
    with pytest.raises(RefusedStatementError):
        sink.copy(staging, 1, [row])


def test_after_a_refusal_a_transaction_does_nothing_more(session, stream):
    def goes_on():
        with session.transaction():
            with pytest.raises(psycopg2.errors.CheckViolation):
                session.run("record_hole", **hole(stream, reason=""))
            decisions.set_reason(session, WHY)

    with pytest.raises(RetryableError, match="transaction is aborted"):
        goes_on()
    assert run(session, "record_hole", **hole(stream)) == 1
