"""States of keys are published with their batch: what was staged is what is there, once, and never over a state that has changed since."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from given_ledger.decisions import HOLE
from given_ledger.ledgers import PIPELINE, claim, execute, query, stage, start_streams
from given_ledger.states import folded, planned, positions, publish, staged, states
from tideline.domain.states import BatchKind
from tideline.errors import FatalError, RetryableError, SupersededError
from tideline.ledger import rewinds, state, state_columns
from tideline.ledger.folding import SUFFIX
from tideline.ledger.state_columns import StateColumns
from tideline.sinks.postgres.due_timers import count_due

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
ANN, BOB = '["ann"]', '["bob"]'


@pytest.fixture
def stream(ledger):
    return start_streams(ledger, 1)[0]


def test_what_expires_after_the_records_overrides_what_they_have_left(ledger, stream):
    rows = [(1, ANN, stream, {"clicks": 1}, NOON, 3), (1, BOB, stream, {"clicks": 1}, NOON, 4)]
    rows += [(2, ANN, stream, None, None, 3), (2, BOB, stream, {"clicks": 0}, None, 4)]
    attempt = folded(ledger, planned(ledger, {stream: (0, 10)}), rows, max_times={stream: NOON})
    assert states(ledger) == {BOB: ({"clicks": 0}, stream, 4, attempt.batch_id)}
    assert positions(ledger) == {stream: (10, NOON, 1, attempt.batch_id)}
    counts = "SELECT seq, processor, n_keys, n_expired, undo FROM tideline.state_batch"
    assert query(ledger, counts) == [(1, "v1", 2, 2, "kept")]


def test_only_what_the_winning_tasks_have_staged_counts(ledger, stream):
    attempt = claim(ledger, planned(ledger, {stream: (0, 10)}))
    stage(ledger, attempt)
    found = staged(ledger, attempt, [(1, ANN, stream, {"clicks": 1}, None, 3)])
    lost = f"INSERT INTO tideline_staging.{found.table} VALUES (7, 1, %s, %s, '{{}}', NULL, 9), (8, 2, %s, %s, NULL, NULL, 9)"
    execute(ledger, lost, BOB, stream, ANN, stream)
    publish(ledger, attempt, found)
    assert states(ledger) == {ANN: ({"clicks": 1}, stream, 3, attempt.batch_id)}


@pytest.mark.parametrize(
    "missing", ["TRUNCATE tideline_staging.{0}", "INSERT INTO tideline_staging.{0} SELECT * FROM tideline_staging.{0}"]
)
def test_staged_states_that_are_missing_or_twice_there_are_not_published(ledger, stream, missing):
    """A crash of the server empties staging tables. A task of another run of a stage could stage a key a second time."""
    attempt = claim(ledger, planned(ledger, {stream: (0, 10)}))
    stage(ledger, attempt)
    found = staged(ledger, attempt, [(1, ANN, stream, {"clicks": 1}, None, 3)])
    execute(ledger, missing.format(found.table))
    with pytest.raises(RetryableError, match="1 states were staged in phase 1"):
        publish(ledger, attempt, found)
    assert states(ledger) == positions(ledger) == {}


def test_an_attempt_that_has_read_another_state_is_refused(ledger, stream):
    """As after a rewind: the offsets are the same, the states are not."""
    attempt = claim(ledger, planned(ledger, {stream: (0, 10)}))
    stage(ledger, attempt)
    found = staged(ledger, attempt)
    before = found.positions[stream]
    with pytest.raises(
        RetryableError,
        match=r"ads/0 was folded up to 0 when the attempt read it \(version 4\), and is folded up to 0 now",
    ):
        publish(ledger, attempt, replace(found, positions={stream: replace(before, version=4)}))
    publish(ledger, attempt, found)


def test_each_stream_has_a_position_of_its_own(ledger):
    one, other = start_streams(ledger, 2)
    first = folded(ledger, planned(ledger, {one: (0, 10), other: (0, 5)}), max_times={one: NOON})
    second = folded(ledger, planned(ledger, {other: (5, 9)}))
    assert positions(ledger) == {one: (10, NOON, 1, first.batch_id), other: (9, None, 2, second.batch_id)}


@pytest.mark.parametrize(("resets", "left"), [(False, {ANN, BOB}), (True, {BOB})])
def test_after_a_gap_a_stream_keeps_its_state_or_begins_without_one(ledger, stream, resets, left):
    (other,) = start_streams(ledger, 1, pipeline="another")
    folded(ledger, planned(ledger, {other: (0, 5)}, pipeline="another"), [(1, ANN, other, {"clicks": 3}, None, 1)])
    rows = [(1, ANN, stream, {"clicks": 1}, None, 3), (1, BOB, stream, {"clicks": 1}, None, 4)]
    folded(ledger, planned(ledger, {stream: (0, 10)}), rows, resets=resets)
    execute(ledger, HOLE, stream, "[10, 15)")
    batch_id = planned(ledger, {stream: (15, 20)})
    assert state.positions(ledger, batch_id)[stream].has_gap
    folded(ledger, batch_id, [(1, BOB, stream, {"clicks": 1}, None, 16)], resets=resets)
    assert set(states(ledger)) == left
    assert set(states(ledger, "another")) == {ANN}
    undone = query(ledger, "SELECT key FROM tideline.state_undo WHERE batch_id = %s AND existed", batch_id)
    assert {key for (key,) in undone} == ({ANN, BOB} if resets else {BOB})


def test_a_batch_that_follows_the_last_one_has_no_gap(ledger, stream):
    folded(ledger, planned(ledger, {stream: (0, 10)}))
    assert not state.positions(ledger, planned(ledger, {stream: (10, 20)}))[stream].has_gap


def test_a_topic_created_again_still_follows_its_keys_after_a_rewind_to_its_beginning(ledger, stream):
    """Or `on_gap: reset` would keep states the second time that it has not kept the first time."""
    folded(ledger, planned(ledger, {stream: (0, 10)}), [(1, ANN, stream, {"clicks": 1}, None, 3)])
    execute(ledger, "UPDATE tideline.stream SET state = 'retired' WHERE stream_id = %s", stream)
    again = "INSERT INTO tideline.stream (pipeline, cluster_id, topic, topic_id, partition, start_offset, next_offset)"
    [(anew,)] = query(
        ledger, f"{again} VALUES (%s, 'c', 'ads', gen_random_uuid(), 0, 0, 0) RETURNING stream_id", PIPELINE
    )
    ledger.connection.commit()
    first = planned(ledger, {anew: (0, 10)})
    before = state.positions(ledger, first)[anew]
    folded(ledger, first)
    with ledger.transaction():
        rewinds.undo(ledger, PIPELINE, [first], to_batch=None, reason="wrong processor")
    after = state.positions(ledger, planned(ledger, {anew: (0, 10)}, kind=BatchKind.BACKFILL))[anew]
    assert (before.has_gap, after.has_gap) == (True, True)
    assert replace(after, version=0) == before


def test_the_timers_of_an_attempt_that_was_superseded_do_not_come(ledger, stream):
    """The attempt that has published has dropped what it has staged."""
    batch_id = planned(ledger, {stream: (0, 10)})
    attempt = claim(ledger, batch_id)
    late = staged(ledger, attempt)
    folded(ledger, batch_id)
    execute(ledger, f"DROP TABLE tideline_staging.{late.table}")
    with pytest.raises(SupersededError, match="was refused: expected to hold the batch"):
        count_due(ledger, attempt, late.table.removesuffix(SUFFIX), [], [])


def test_an_upsert_of_a_state_needs_no_state_of_other_pipelines(ledger, stream):
    (other,) = start_streams(ledger, 1, pipeline="another")
    folded(ledger, planned(ledger, {other: (0, 5)}, pipeline="another"), [(1, ANN, other, {"clicks": 3}, None, 1)])
    folded(ledger, planned(ledger, {stream: (0, 10)}), [(1, ANN, stream, None, None, 3)])
    assert states(ledger) == {}
    assert set(states(ledger, "another")) == {ANN}


# Columns ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def stored(ledger, stream):
    """Fold a state with the columns `first` and `clicks`."""
    columns = StateColumns(key=("user_id",), types={"first": "timestamp", "clicks": "bigint"})
    folded(ledger, planned(ledger, {stream: (0, 10)}), [(1, ANN, stream, {"clicks": 1}, None, 3)], columns=columns)
    return columns


def evolved(ledger, columns, *, key=("user_id",), renamed=None):
    return state_columns.evolved(ledger, PIPELINE, key=key, columns=columns, renamed=renamed or {})


def test_a_column_that_is_added_is_null_in_older_states(ledger, stored):
    found = evolved(ledger, {"first": "timestamp", "clicks": "bigint", "revenue": "decimal(18,6)"})
    assert found.read({"clicks": 1}, ["clicks", "revenue"]) == {"clicks": 1, "revenue": None}


def test_a_column_that_is_renamed_is_read_by_each_of_its_former_names(ledger, stream, stored):
    once = evolved(ledger, {"first": "timestamp", "visits": "bigint"}, renamed={"visits": "clicks"})
    assert once.read({"clicks": 1}, ["visits"]) == {"visits": 1}
    folded(ledger, planned(ledger, {stream: (10, 20)}), [(1, BOB, stream, {"visits": 2}, None, 13)], columns=once)
    twice = evolved(ledger, {"first": "timestamp", "views": "bigint"}, renamed={"views": "visits"})
    assert [twice.read(one, ["views"])["views"] for one in ({"clicks": 1}, {"visits": 2}, {"views": 3})] == [1, 2, 3]
    assert evolved(ledger, {"visits": "bigint"}).read({"clicks": 1}, ["visits"]) == {"visits": 1}, "without `renamed`"


@pytest.mark.parametrize(
    ("columns", "others", "problem"),
    [
        ({"clicks": "int"}, {}, "expected clicks to be bigint, found int"),
        ({"visits": "int"}, {"renamed": {"visits": "clicks"}}, "expected visits to be bigint, found int"),
        ({"visits": "int"}, {"renamed": {"visits": "views"}}, "visits was never called views"),
        ({"clicks": "bigint"}, {"key": ["offer_id"]}, "expected the key user_id, found offer_id"),
    ],
)
def test_states_that_do_not_fit_are_refused_before_anything_is_read(ledger, stored, columns, others, problem):
    with pytest.raises(FatalError, match=problem) as caught:
        evolved(ledger, columns, **others)
    assert f"tideline rewind {PIPELINE} --to-batch 0" in caught.value.next_step


def test_the_name_of_a_column_that_is_gone_comes_back_with_its_type_only(ledger, stream, stored):
    without = evolved(ledger, {"first": "timestamp"})
    folded(ledger, planned(ledger, {stream: (10, 20)}), columns=without)
    with pytest.raises(FatalError, match="expected clicks to be bigint, found string"):
        evolved(ledger, {"clicks": "string"})
    assert evolved(ledger, {"clicks": "bigint"}).read({"clicks": 1}, ["clicks"]) == {"clicks": 1}


def test_without_states_every_declaration_fits_as_soon_as_no_rewind_can_bring_some_back(ledger, stream):
    """A rewind to the first batch would bring a state back whose column and key the processor would misread."""
    began = folded(ledger, planned(ledger, {stream: (0, 10)}), [(1, ANN, stream, {"clicks": 1}, None, 3)])
    ended = folded(ledger, planned(ledger, {stream: (10, 20)}), [(1, ANN, stream, None, None, 13)])
    assert states(ledger) == {}
    other = {"columns": {"clicks": "string"}, "key": ["offer_id"]}
    with pytest.raises(FatalError, match="expected clicks to be bigint, found string"):
        evolved(ledger, **other)
    with ledger.transaction():
        rewinds.undo(ledger, PIPELINE, [ended.batch_id, began.batch_id], to_batch=None, reason="another key")
    assert evolved(ledger, **other).types == {"clicks": "string"}


def test_without_states_and_with_pruned_undo_every_declaration_fits(ledger, stream):
    folded(ledger, planned(ledger, {stream: (0, 10)}), [(1, ANN, stream, {"clicks": 1}, None, 3)])
    folded(ledger, planned(ledger, {stream: (10, 20)}), [(1, ANN, stream, None, None, 13)])
    rewinds.prune(ledger, PIPELINE, 0)
    assert evolved(ledger, {"clicks": "string"}, key=["offer_id"]).types == {"clicks": "string"}
