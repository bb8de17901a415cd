"""A task's counts depend only on the data: tasks that read the same records in other portions, or with other ranges, store the same counts."""

from dataclasses import replace
from itertools import chain, zip_longest
from uuid import uuid4

import pyarrow as pa
import pytest

from given_ledger import ledgers
from given_ledger.ledgers import query
from tideline.ledger.database_errors import RefusedStatementError
from tideline.records.staged_counts import Recorder
from tideline.records.transforms import KAFKA

COUNTS = (
    "SELECT stream_id, first_read, last_read, n_read, n_filtered, n_bytes FROM tideline.staged_count ORDER BY stream_id"
)
OFFSETS = [[0, 1, 2], [7], [3, 4, 9]]
"""The offsets of each partition, with gaps."""
REJECTED = {(0, 1), (2, 9)}
FILTERED = {(1, 7), (2, 3)}


@pytest.fixture
def attempt(ledger):
    return ledgers.claim(ledger, ledgers.plan(ledger, dict.fromkeys(ledgers.start_streams(ledger, 3), (0, 100))))


def places(partitions):
    """Return partition and offset of each record, partition by partition."""
    return [(partition, offset) for partition in partitions for offset in OFFSETS[partition]]


def kafka(some):
    return pa.array(
        [
            {"topic": "ads", "partition": p, "offset": o, "key": b"k" * o, "value": None if o == 2 else b"v"}
            for p, o in some
        ],
        KAFKA,
    )


def count(ledger_url, attempt, *batches):
    """Count these batches as a task does; each record that passes has two rows."""
    streams = {(piece.topic, piece.partition): piece.stream_id for piece in attempt.ranges}
    with Recorder(ledger_url, attempt.attempt, streams) as recorder:
        for batch in batches:
            passed = [place for place in batch if place not in REJECTED | FILTERED]
            rejected = kafka([place for place in batch if place in REJECTED])
            recorder.count(kafka(batch), rejected=[rejected], passed=[pa.table({"kafka": kafka([*passed, *passed])})])


def in_turns():
    """Take one record of each partition in turn."""
    columns = zip_longest(*(places([partition]) for partition in range(3)))
    return [place for place in chain.from_iterable(columns) if place]


@pytest.mark.parametrize(
    "tasks",
    [
        [[places([0])], [places([1])], [places([2])]],
        [[places([0, 1, 2])]],
        [[[place] for place in places([2, 0, 1])]],
        [[places([0]), [], places([1, 2])[:2], places([1, 2])[2:]]],
        [[in_turns()]],
        [[places([0, 1])], [places([2])], [places([1, 0])], [places([0]), places([1, 2])]],
    ],
    ids=["apart", "together", "one by one", "in portions", "in turns", "some of them twice"],
)
def test_counts_do_not_depend_on_how_tasks_share_the_ranges(ledger, ledger_url, attempt, tasks):
    for batches in tasks:
        count(ledger_url, attempt, *batches)
    ids = [piece.stream_id for piece in attempt.ranges]
    assert query(ledger, COUNTS) == [(ids[0], 0, 2, 3, 0, 5), (ids[1], 7, 7, 1, 1, 8), (ids[2], 3, 9, 3, 1, 19)]


def test_what_an_attempt_from_before_a_restore_stages_is_refused(ledger, ledger_url, attempt):
    """The restored ledger has given its id to another attempt, whose batch its counts and rejects would spoil."""
    forgotten = replace(attempt, attempt=uuid4())
    with pytest.raises(RefusedStatementError, match="was the ledger restored to an earlier moment"):
        count(ledger_url, forgotten, places([0]))
    with pytest.raises(RefusedStatementError, match="the ledger does not know it"):
        reject(ledger_url, forgotten, places([0]))
    assert query(ledger, COUNTS) == []
    assert query(ledger, "SELECT count(*) FROM tideline.staged_reject") == [(0,)]


def reject(ledger_url, attempt, batch):
    streams = {(piece.topic, piece.partition): piece.stream_id for piece in attempt.ranges}
    with Recorder(ledger_url, attempt.attempt, streams) as recorder:
        recorder.reject("decode", kafka(batch), ["not JSON"] * len(batch))


def test_a_task_has_one_session_for_all_that_it_records(ledger, ledger_url, attempt, monkeypatch):
    """A new session for each thousand rejects takes longer than storing them."""
    monkeypatch.setattr("tideline.records.staged_counts._REJECTS_AT_ONCE", 2)
    ours = "SELECT DISTINCT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    streams = {(piece.topic, piece.partition): piece.stream_id for piece in attempt.ranges}
    with Recorder(ledger_url, attempt.attempt, streams) as recorder:
        recorder.reject("decode", kafka(places([0, 1])), ["because"] * 4)
        first = query(ledger, ours)
        recorder.reject("decode", kafka(places([2])), ["because"] * 3)
        assert query(ledger, ours) == first
        assert len(first) == 1
    assert query(ledger, "SELECT count(*)::int FROM tideline.staged_reject") == [(7,)]
