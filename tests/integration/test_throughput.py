"""The lag after a live batch is what the pipeline had still to read then, in all partitions, as far as the ledger knows it."""

import itertools

import pytest

from given_ledger import ledgers
from given_ledger.ledgers import execute
from tideline import flow
from tideline.domain.states import BatchKind
from tideline.ledger import queries


@pytest.fixture
def load(ledger):
    """Return a function that publishes and advances a batch over (start, end) by stream, while each log holds `left` records above it."""
    numbers = itertools.count()

    def loaded(ranges, *, left=0, kind=BatchKind.LIVE, advance=True):
        run = ledgers.Run(dag_id=ledgers.PIPELINE, run_id=f"manual__{next(numbers)}")
        attempt = ledgers.claim(ledger, ledgers.plan(ledger, ranges, run=run, kind=kind))
        ledgers.stage(ledger, attempt)
        ledgers.publish(ledger, attempt, cut=-left)
        if advance:
            flow.advance(ledger, ledgers.PIPELINE, run)
        return attempt.batch_id

    return loaded


def lags(ledger, *, limit=100):
    found = queries.throughput(ledger, ledgers.PIPELINE, limit=limit)
    ledger.connection.rollback()
    return [row["n_left"] for row in found]


def test_each_partition_keeps_its_lag_until_a_batch_reads_it(ledger, load):
    one, two = ledgers.start_streams(ledger, 2)
    load({one: (0, 10), two: (0, 10)}, left=100)
    load({one: (10, 20)}, left=90)
    load({two: (10, 60)}, left=50)
    assert lags(ledger) == [200, 190, 140]


def test_a_replay_changes_no_lag_and_counts_for_throughput(ledger, load):
    (stream,) = ledgers.start_streams(ledger, 1)
    load({stream: (0, 100)}, left=50)
    load({stream: (100, 140)}, left=20)
    load({stream: (0, 100)}, left=60, kind=BatchKind.REPLAY)
    load({stream: (140, 150)}, left=30)
    found = queries.throughput(ledger, ledgers.PIPELINE, limit=10)
    assert [(row["kind"], row["n_read"], row["n_left"]) for row in found] == [
        ("live", 100, 50),
        ("live", 40, 20),
        ("replay", 100, None),
        ("live", 10, 30),
    ]


def test_lag_of_before_the_newest_batches_is_carried_on(ledger, load):
    one, two, three = ledgers.start_streams(ledger, 3)
    load({one: (0, 10), two: (0, 10)}, left=100)
    load({three: (0, 10)}, left=7)
    load({one: (10, 20)}, left=90)
    assert lags(ledger) == [200, 207, 197]
    assert lags(ledger, limit=1) == [197]


def test_what_was_skipped_is_not_left_to_be_read(ledger, load):
    one, two = ledgers.start_streams(ledger, 2)
    load({one: (0, 10)}, left=100)
    ledgers.leave_hole(ledger, one, 50, 80, "skipped")
    load({two: (0, 10)}, left=1)
    assert lags(ledger) == [70, 71]


def test_a_partition_that_is_not_followed_any_more_has_no_lag(ledger, load):
    one, two = ledgers.start_streams(ledger, 2)
    load({one: (0, 10)}, left=100)
    load({two: (0, 10)}, left=3)
    execute(ledger, f"UPDATE tideline.stream SET state = 'stopped', stopped_because = 'a test' WHERE stream_id = {one}")
    execute(ledger, f"UPDATE tideline.stream SET state = 'retired', stopped_because = NULL WHERE stream_id = {one}")
    assert lags(ledger) == [None, 3]


def test_a_batch_that_is_published_late_does_not_bring_back_lag_that_is_gone(ledger, load):
    (stream,) = ledgers.start_streams(ledger, 1)
    late = ledgers.plan(ledger, {stream: (0, 100)})
    load({stream: (100, 150)}, left=10, advance=False)
    attempt = ledgers.claim(ledger, late)
    ledgers.stage(ledger, attempt)
    ledgers.publish(ledger, attempt, cut=-60)
    assert lags(ledger) == [10, None]
