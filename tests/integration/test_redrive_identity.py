"""A re-drive settles the rejects that it has read, each by its identity: equal numbers prove nothing."""

import pytest

from given_ledger.decisions import load, reject
from given_ledger.ledgers import PIPELINE, claim, plan, query, start_streams
from tideline.domain.facts import PartitionFacts
from tideline.domain.states import BatchKind
from tideline.errors import RetryableError
from tideline.ledger import publishing, reservations
from tideline.ledger.publishing import Written
from tideline.spark_jobs.readers import kept_rejects

REJECTED = (3, 5, 7)


@pytest.fixture
def stream(ledger) -> int:
    """Load ten offsets, three of which were rejected."""
    [stream] = start_streams(ledger, 1)
    load(ledger, stream, 0, 10, *REJECTED)
    return stream


@pytest.fixture
def redrive(ledger, stream):
    """Start an attempt to re-drive all three."""
    batch_id = plan(ledger, {stream: (3, 8)}, kind=BatchKind.REDRIVE, gaps_allowed=True)
    with ledger.transaction():
        reservations.take_rejects(ledger, [batch_id], of_batch=None, reason_like=None)
    return claim(ledger, batch_id)


def read(ledger, attempt, stream, start, end):
    """Read and count a slice as a task does."""
    found = [row["kafka_offset"] for row in kept_rejects.read_slice(ledger, attempt, stream, start, end)]
    if found:
        with ledger.transaction():
            ledger.run(
                "stage_counts",
                attempt=attempt.attempt,
                stream_ids=[stream],
                first_read=[found[0]],
                last_read=[found[-1]],
                n_read=[len(found)],
                n_filtered=[0],
                n_bytes=[0],
            )
    return found


def settle(ledger, attempt, stream, *written):
    facts = {stream: PartitionFacts(partition=0, log_start=0, end=10)}
    publishing.publish(
        ledger,
        attempt,
        lambda _: Written(n_written={stream: len(written)}, offsets=[(stream, offset) for offset in written]),
        facts=facts,
        filtered_by_difference=True,
    )


def rejects(ledger):
    """Return offset -> the attempt that has rejected it last."""
    return dict(query(ledger, "SELECT kafka_offset, attempt_id FROM tideline.reject ORDER BY 1"))


def test_what_was_read_is_settled_and_what_was_rejected_again_is_another_reject(ledger, stream, redrive):
    assert read(ledger, redrive, stream, 3, 8) == [3, 5, 7]
    reject(ledger, redrive, stream, 7)
    settle(ledger, redrive, stream, 3)
    assert rejects(ledger) == {7: redrive.attempt_id}
    counts = "SELECT n_written, n_rejected, n_filtered FROM tideline.batch_range ORDER BY batch_id"
    assert query(ledger, counts) == [(8, 1, 1), (1, 1, 1)]
    assert query(ledger, "SELECT count(*) FROM tideline.staged_redrive") == [(0,)]


def test_a_reject_that_was_not_read_is_not_settled_although_the_numbers_agree(ledger, stream, redrive):
    """Seeds 6002409 and 8017117 of the simulation: offset 7 was deleted although no task had decoded it."""
    assert read(ledger, redrive, stream, 3, 6) == [3, 5]
    load(ledger, stream, 3, 4, kind=BatchKind.REPLAY)
    with pytest.raises(RetryableError, match=r"2 were read, 1 of these are gone .*, 1 others are there"):
        settle(ledger, redrive, stream, 5)
    assert rejects(ledger).keys() == {5, 7}


def test_a_reject_that_came_back_is_not_the_one_that_was_read(ledger, stream, redrive):
    assert read(ledger, redrive, stream, 3, 8) == [3, 5, 7]
    replay = load(ledger, stream, 3, 4, 3, kind=BatchKind.REPLAY)
    with pytest.raises(RetryableError, match=r"3 were read, 1 of these are gone .*, 1 others are there"):
        settle(ledger, redrive, stream, *REJECTED)
    assert rejects(ledger)[3] == replay.attempt_id
    again = claim(ledger, redrive.batch_id)
    assert read(ledger, again, stream, 3, 8) == [3, 5, 7]
    settle(ledger, again, stream, *REJECTED)
    assert rejects(ledger) == {}
    owned = "SELECT n_written, n_rejected FROM tideline.batch_range WHERE batch_id = %s"
    assert query(ledger, owned, replay.batch_id) == [(1, 0)]


def test_settling_names_each_reject_even_where_no_comparison_stands_before_it(ledger, stream, redrive):
    assert read(ledger, redrive, stream, 3, 8) == [3, 5, 7]
    replay = load(ledger, stream, 3, 6, 3, 5, kind=BatchKind.REPLAY)
    reject(ledger, redrive, stream, 5)
    with ledger.transaction():
        assert ledger.run("keep_rejects", attempt_id=redrive.attempt_id) == 0
        settled = ledger.rows(
            "settle_rejects", attempt_id=redrive.attempt_id, stream_ids=[stream] * 3, offsets=list(REJECTED)
        )
        with ledger.connection.cursor() as cursor:
            cursor.execute("SELECT kafka_offset, attempt_id FROM tideline.reject")
            left = {row["kafka_offset"]: row["attempt_id"] for row in cursor}
        ledger.connection.rollback()  # the ledger refuses rejects that go without a publication
    assert [(row["n_gone"], row["n_written"]) for row in settled] == [(1, 1)]
    assert left == {3: replay.attempt_id, 5: replay.attempt_id}


def test_what_was_read_and_not_decoded_to_its_end_is_not_settled(ledger, stream, redrive):
    kept_rejects.read_slice(ledger, redrive, stream, 3, 8)
    with pytest.raises(RetryableError, match="of 1 partitions not all were decoded"):
        settle(ledger, redrive, stream)
    assert rejects(ledger).keys() == set(REJECTED)


def test_a_task_that_runs_twice_counts_once(ledger, stream, redrive):
    for _ in range(2):
        assert read(ledger, redrive, stream, 3, 8) == [3, 5, 7]
    settle(ledger, redrive, stream, *REJECTED)
    assert rejects(ledger) == {}


@pytest.mark.parametrize("rejected_again", [(), (3,)])
def test_a_task_that_runs_twice_and_finds_others_the_second_time_fails(ledger, stream, redrive, rejected_again):
    """The staged rows may be those of the first run."""
    read(ledger, redrive, stream, 3, 8)
    load(ledger, stream, 3, 4, *rejected_again, kind=BatchKind.REPLAY)
    with pytest.raises(RetryableError, match="were read twice, and were others the second time"):
        read(ledger, redrive, stream, 3, 8)


def test_what_a_dead_attempt_has_read_goes_with_what_it_has_staged(ledger, stream, redrive):
    read(ledger, redrive, stream, 3, 8)
    claim(ledger, redrive.batch_id)
    with ledger.transaction():
        assert ledger.rows("clear_dead_staging", pipeline=PIPELINE)[0]["n_rows"] == 2
    assert query(ledger, "SELECT count(*) FROM tideline.staged_redrive") == [(0,)]
