"""Windows of time as targets: what is loaded, replaced and left to others, in any order of the windows."""

import random
from itertools import pairwise

import pytest

from given_ledger.ledgers import query, state
from given_ledger.planners import (
    NAME,
    ask,
    coverage,
    decide,
    declared,
    finish,
    kinds,
    load,
    next_offsets,
    piece,
    plan,
    ranges_of,
    run,
    these,
)
from given_topics.topics import at, delete_before, stamped, topic_of, window
from tideline import flow
from tideline.errors import NeedsOperatorError
from tideline.ledger import heads


@pytest.fixture(scope="module")
def records(admin, broker):
    """Create a read-only topic: minutes 0 to 11 in partition 0, 0 to 4 in partition 1."""
    return topic_of(admin, broker, 12, 5)


@pytest.fixture
def pipeline(broker, records):
    return declared(broker.bootstrap, records, batch_records=4, run_batches=2)


@pytest.mark.parametrize("seed", range(5))
def test_windows_in_any_order_and_written_in_any_order_load_each_offset_once(ledger, ledger_url, pipeline, seed):
    """Some windows overlap; some runs fail and their batches wait for others."""
    chance = random.Random(seed)
    asked = [window(0, 3), window(3, 7), window(2, 4), window(6, 9), window(7, 20), window(0, 20)]
    chance.shuffle(asked)
    waiting = []
    for number, wanted in enumerate(asked):
        waiting += ask(ledger_url, pipeline, f"window {number}", wanted).batch_ids
        chance.shuffle(waiting)
        while waiting and chance.random() < 0.5:
            write(ledger, waiting.pop())
            heads.advance_published(ledger, NAME)
    for batch_id in waiting:
        write(ledger, batch_id)
    for number in range(len(asked)):
        flow.advance(ledger, NAME, run(f"window {number}"))
    assert next_offsets(ledger) == {0: 12, 1: 5}
    for partition, end in ((0, 12), (1, 5)):
        edges = [(0, 0), *((a, b) for a, b, _ in coverage(ledger, partition)), (end, end)]
        assert all(left[1] == right[0] for left, right in pairwise(edges))
        assert all(isinstance(owner, int) for *_, owner in coverage(ledger, partition))
    moves = query(
        ledger,
        "SELECT stream_id, (detail ->> 'from')::int, (detail ->> 'to')::int FROM tideline.event WHERE action = 'move head' ORDER BY 1, event_id",
    )
    assert all(one[2] == other[1] for one, other in pairwise(moves) if one[0] == other[0]), "no head jumps or goes back"


def write(ledger, batch_id):
    if state(ledger, batch_id)[0] in {"planned", "failed"}:
        finish(ledger, [batch_id])


def test_a_window_that_ends_behind_the_head_loads_all_from_the_head_to_its_end(ledger, ledger_url, pipeline):
    """It takes as many batches as needed, because no other run loads the rest."""
    batch_ids = ask(ledger_url, pipeline, "late", window(9, 11)).batch_ids
    assert {kind for kind, _ in kinds(ledger, batch_ids)} == {"live"}
    load(ledger, batch_ids)
    flow.advance(ledger, NAME, run("late"))
    assert next_offsets(ledger) == {0: 11, 1: 5}


def test_a_window_takes_what_an_earlier_run_left_open_between_the_head_and_its_end(ledger, ledger_url, pipeline):
    """Otherwise it would have nothing to do, and would look finished."""
    left = ask(ledger_url, pipeline, "failed", window(0, 12)).batch_ids
    assert ask(ledger_url, pipeline, "early", window(0, 3)).batch_ids == left
    load(ledger, left)
    assert ask(ledger_url, pipeline, "again", window(0, 3)).batch_ids == []


def test_a_window_takes_an_open_backfill_that_its_heads_have_to_pass(ledger, ledger_url, pipeline):
    [ahead] = ask(ledger_url, pipeline, "ahead", these(pipeline, (2, 4))).batch_ids
    given = ask(ledger_url, pipeline, "window", window(0, 6)).batch_ids
    assert ahead in given
    load(ledger, given)
    flow.advance(ledger, NAME, run("window"))
    assert next_offsets(ledger)[0] == 6


def test_a_window_without_holes_plans_nothing_and_says_who_has_it(ledger, ledger_url, pipeline):
    first, second, *_ = load(ledger, ask(ledger_url, pipeline, "all", window(0, 12)).batch_ids)
    assert [ranges_of(ledger, n) for n in (first, second)] == [{0: (0, 2), 1: (0, 2)}, {0: (2, 4), 1: (2, 4)}]
    given = ask(ledger_url, pipeline, "again", window(1, 3))
    name = pipeline.source.topics[0]
    assert given.batch_ids == []
    assert sorted(given.notes) == [
        f"{name}/{partition} [{n}, {n + 1}): loaded by batch {owner}; say `replace` to load it again"
        for partition in (0, 1)
        for n, owner in ((1, first), (2, second))
    ]
    assert ask(ledger_url, pipeline, "before all", window(-9, 0)).batch_ids == []
    assert ask(ledger_url, pipeline, "after all", window(30, 40)).batch_ids == []


def test_a_window_replaces_exactly_what_is_loaded_and_fills_the_holes(ledger, ledger_url, broker, records):
    pipeline = declared(broker.bootstrap, records)
    decide(ledger_url, pipeline, flow.skip, piece(pipeline, 4, 6), reason="poison")
    load(ledger, plan(ledger_url, pipeline, "all"))
    given = ask(ledger_url, pipeline, "again", window(3, 8, replace=True), reason="new prices")
    assert kinds(ledger, given.batch_ids) == [
        ("backfill", {0: (4, 6)}),
        ("replay", {0: (3, 4), 1: (3, 5)}),
        ("replay", {0: (6, 8)}),
    ]
    assert given.notes == []
    assert query(ledger, "SELECT DISTINCT reason FROM tideline.batch WHERE kind <> 'live'") == [("new prices",)]
    load(ledger, given.batch_ids)
    assert [(a, b) for a, b, _ in coverage(ledger)] == [(0, 3), (3, 4), (4, 6), (6, 8), (8, 12)]
    assert next_offsets(ledger) == {0: 12, 1: 5}


def test_a_window_fills_a_hole_ahead_of_the_head_as_well(ledger, ledger_url, pipeline):
    decide(ledger_url, pipeline, flow.skip, piece(pipeline, 4, 6), reason="poison")
    given = ask(ledger_url, pipeline, "all", window(0, 12))
    assert given.notes == []
    assert [r for r in kinds(ledger, given.batch_ids) if r[0] == "backfill"] == [("backfill", {0: (4, 6)})]
    load(ledger, given.batch_ids)
    flow.advance(ledger, NAME, run("all"))
    assert next_offsets(ledger) == {0: 12, 1: 5}
    assert all(isinstance(owner, int) for *_, owner in coverage(ledger))


def test_a_window_leaves_what_open_batches_have_and_names_them(ledger, ledger_url, pipeline):
    load(ledger, plan(ledger_url, pipeline, "begin", until=at(2)))
    decide(ledger_url, pipeline, flow.skip, piece(pipeline, 2, 6), reason="poison")
    [opened] = ask(ledger_url, pipeline, "ranges", these(pipeline, (3, 5))).batch_ids
    given = ask(ledger_url, pipeline, "window", window(2, 6, replace=True))
    assert [r for r in kinds(ledger, given.batch_ids) if 0 in r[1]] == [
        ("backfill", {0: (2, 3)}),
        ("backfill", {0: (5, 6)}),
    ]
    assert given.notes == [f"{pipeline.source.topics[0]}/0 [3, 5): batch {opened} is planned and will load it"]


def test_a_window_does_not_replace_what_the_heads_have_not_passed(ledger, ledger_url, pipeline):
    _, second, *_ = batch_ids = plan(ledger_url, pipeline, "all", until=at(4))
    finish(ledger, [second])
    given = ask(ledger_url, pipeline, "again", window(2, 4, replace=True))
    assert given.batch_ids == batch_ids[:1], "what lies before it, and nothing of what it has"
    assert f"batch {second} is published, and the heads have not passed it" in given.notes[0]
    load(ledger, batch_ids[:1])
    assert {
        kind for kind, _ in kinds(ledger, ask(ledger_url, pipeline, "again", window(2, 4, replace=True)).batch_ids)
    } == {"replay"}


def test_a_window_loads_what_lies_before_a_streams_start(ledger, ledger_url, broker, records):
    pipeline = declared(broker.bootstrap, records, start="latest")
    assert plan(ledger_url, pipeline, "begin") == []
    given = ask(ledger_url, pipeline, "past", window(3, 5)).batch_ids
    assert kinds(ledger, given) == [("backfill", {0: (3, 5), 1: (3, 5)})]
    load(ledger, given)
    flow.advance(ledger, NAME, run("past"))
    assert next_offsets(ledger) == {0: 12, 1: 5}
    assert coverage(ledger) == [(3, 5, given[0])]


def test_a_window_over_a_stopped_stream_loads_the_other_streams(admin, broker, ledger, ledger_url):
    topic = topic_of(admin, broker, 0, 0)
    pipeline = declared(broker.bootstrap, topic)
    plan(ledger_url, pipeline, "begin")
    for partition in range(2):
        stamped(broker, topic, range(6), partition=partition)
    delete_before(admin, topic, 2)
    assert kinds(ledger, ask(ledger_url, pipeline, "one", window(0, 4)).batch_ids) == [("live", {1: (0, 4)})]
    load(ledger, plan(ledger_url, pipeline, "all"))
    with pytest.raises(NeedsOperatorError, match=r"offsets \[0, 2\) are gone"):
        ask(ledger_url, pipeline, "two", window(0, 4))
