"""Movement of heads: only over what is accounted for, each as far as possible, and each once."""

import random
import re
from itertools import pairwise

import pytest

from given_ledger.ledgers import (
    PIPELINE,
    RUN,
    claim,
    plan,
    publish,
    published,
    query,
    stage,
    start_streams,
    wait_for_a_lock,
    write,
)
from servers.concurrency import beside, together
from tideline import flow
from tideline.domain.states import BatchKind
from tideline.errors import NeedsOperatorError
from tideline.ledger import attempts, heads, reservations
from tideline.ledger.connection import Ledger
from tideline.ledger.reservations import Run


def next_offsets(ledger):
    with ledger.transaction():
        return [stream.next_offset for stream in reservations.streams(ledger, PIPELINE)]


def run(number):
    return Run(dag_id="impressions", run_id=f"manual__{number}")


def test_heads_move_in_order_only(ledger):
    one, two = start_streams(ledger, 2)
    first = plan(ledger, {one: (0, 10), two: (0, 5)}, run=run(1))
    second = published(ledger, {one: (10, 20)}, run=run(2))
    assert heads.advance_published(ledger, PIPELINE) == []
    assert next_offsets(ledger) == [0, 0]
    stage(ledger, attempt := claim(ledger, first))
    publish(ledger, attempt)
    assert heads.advance_published(ledger, PIPELINE) == [first, second]
    assert next_offsets(ledger) == [20, 5]


def test_a_batch_is_finished_when_all_of_its_heads_have_passed_it(ledger):
    one, two = start_streams(ledger, 2)
    first = plan(ledger, {one: (0, 10)}, run=run(1))
    second = published(ledger, {one: (10, 20), two: (0, 5)}, run=run(2))
    assert heads.advance_published(ledger, PIPELINE) == []
    assert next_offsets(ledger) == [0, 5]
    write(ledger, first)
    assert heads.advance_published(ledger, PIPELINE) == [first, second]
    assert next_offsets(ledger) == [20, 5]


def test_batches_that_stand_before_each_other_do_not_wait_for_each_other(ledger):
    """Offsets of an abandoned batch of one stream were planned again together with new records of the other."""
    one, two = start_streams(ledger, 2)
    older = published(ledger, {one: (3, 6), two: (0, 3)}, run=run(1))
    newer = published(ledger, {one: (0, 3), two: (3, 6)}, run=run(2))
    assert heads.advance_published(ledger, PIPELINE) == [older, newer]
    assert next_offsets(ledger) == [6, 6]


def test_a_stream_that_is_stuck_holds_no_other(ledger):
    one, two = start_streams(ledger, 2)
    first = published(ledger, {one: (0, 10), two: (5, 9)}, run=run(1))
    second = published(ledger, {one: (10, 20)}, run=run(2))
    assert heads.advance_published(ledger, PIPELINE) == [second]
    assert next_offsets(ledger) == [20, 0]
    leave_hole(ledger, two, 0, 5)
    assert heads.advance_published(ledger, PIPELINE) == [first]


def leave_hole(ledger, stream_id, start, end):
    query(
        ledger,
        "INSERT INTO tideline.coverage (stream_id, offsets, hole, reason, decided_by) VALUES (%s, int8range(%s, %s), 'lost', 'x', 'ada')",
        stream_id,
        start,
        end,
    )


def test_heads_pass_holes_and_what_backfills_and_replays_own(ledger):
    (stream,) = start_streams(ledger, 1)
    leave_hole(ledger, stream, 0, 2)
    backfill = published(ledger, {stream: (2, 5)}, kind=BatchKind.BACKFILL)
    heads.advance_published(ledger, PIPELINE)
    assert next_offsets(ledger) == [5]
    ahead = published(ledger, {stream: (9, 12)}, kind=BatchKind.BACKFILL)
    heads.advance_published(ledger, PIPELINE)
    replay = published(ledger, {stream: (10, 11)}, kind=BatchKind.REPLAY)
    assert next_offsets(ledger) == [5]
    live = published(ledger, {stream: (5, 9)})
    assert sorted(heads.advance_published(ledger, PIPELINE)) == [replay, live]
    assert next_offsets(ledger) == [12]
    states = dict(query(ledger, "SELECT batch_id, state::text FROM tideline.batch"))
    assert states == dict.fromkeys([backfill, ahead, replay, live], "advanced")


def test_a_backfill_or_a_replay_never_waits_for_heads_and_moves_none(ledger):
    (stream,) = start_streams(ledger, 1, start=20)
    live = published(ledger, {stream: (20, 30)})
    heads.advance_published(ledger, PIPELINE)
    past = published(ledger, {stream: (3, 9)}, kind=BatchKind.BACKFILL)
    again = published(ledger, {stream: (22, 25)}, kind=BatchKind.REPLAY)
    moves = query(ledger, "SELECT count(*) FROM tideline.event WHERE action = 'move head'")
    assert heads.advance_published(ledger, PIPELINE) == [past, again]
    assert next_offsets(ledger) == [30]
    assert query(ledger, "SELECT count(*) FROM tideline.event WHERE action = 'move head'") == moves
    assert query(ledger, "SELECT state::text FROM tideline.batch WHERE batch_id = %s", live) == [("advanced",)]


def test_a_head_goes_over_a_hole_and_on_over_a_batch_whose_other_head_waits(ledger):
    one, two = start_streams(ledger, 2)
    leave_hole(ledger, one, 0, 5)
    waits = published(ledger, {one: (5, 10), two: (4, 8)})
    first = plan(ledger, {two: (0, 4)}, run=run(2))
    assert heads.advance_published(ledger, PIPELINE) == []
    assert next_offsets(ledger) == [10, 0]
    write(ledger, first)
    assert heads.advance_published(ledger, PIPELINE) == [waits, first]
    assert next_offsets(ledger) == [10, 8]


@pytest.mark.parametrize("seed", range(6))
def test_the_head_stays_at_the_first_missing_offset_in_any_order_of_publishing(ledger, seed):
    chance = random.Random(seed)
    (stream,) = start_streams(ledger, 1)
    cuts = [0, *sorted(chance.sample(range(1, 40), 8)), 40]
    waiting = []
    for start, end in pairwise(cuts):
        kind = chance.choice([BatchKind.LIVE, BatchKind.LIVE, BatchKind.BACKFILL, None])
        batch_id = kind and plan(ledger, {stream: (start, end)}, run=run(start), kind=kind)
        waiting.append((start, end, batch_id))
    chance.shuffle(waiting)
    while waiting:
        start, end, batch_id = waiting.pop()
        if batch_id is None:
            leave_hole(ledger, stream, start, end)
        else:
            write(ledger, batch_id)
        if chance.random() < 0.6 or not waiting:
            heads.advance_published(ledger, PIPELINE)
            assert next_offsets(ledger) == [min((start for start, *_ in waiting), default=40)]
    assert query(ledger, "SELECT DISTINCT state::text FROM tideline.batch") == [("advanced",)]


def test_advances_at_once_move_each_head_once(ledger, ledger_url):
    (stream,) = start_streams(ledger, 1)
    batch_ids = [published(ledger, {stream: (n * 10, n * 10 + 10)}, run=run(n)) for n in range(6)]

    def advance():
        with Ledger(ledger_url, actor="thread") as own:
            return heads.advance_published(own, PIPELINE)

    moved = together(*[advance] * 4)
    assert sorted(batch for part in moved for batch in part) == batch_ids
    assert next_offsets(ledger) == [60]
    assert query(ledger, "SELECT count(*) FROM tideline.event WHERE action IN ('advance', 'move head')") == [(7,)]


def test_advance_finishes_what_earlier_runs_published(ledger):
    (stream,) = start_streams(ledger, 1)
    earlier = published(ledger, {stream: (0, 10)}, run=run(1))
    own = published(ledger, {stream: (10, 20)}, run=run(2))
    assert flow.advance(ledger, PIPELINE, run(2)) == [earlier, own]
    assert flow.advance(ledger, PIPELINE, run(2)) == []


def test_advance_names_what_is_in_the_way(ledger):
    (stream,) = start_streams(ledger, 1)
    batches = [plan(ledger, {stream: (n * 10, n * 10 + 10)}, run=run(n)) for n in range(3)]
    with ledger.transaction():
        reservations.join_run(ledger, PIPELINE, run(9), batches)
    attempts.fail(ledger, claim(ledger, batches[1]), "the transform divides by zero\nwith a trace")
    stage(ledger, attempt := claim(ledger, batches[2]))
    publish(ledger, attempt)
    with pytest.raises(NeedsOperatorError) as caught:
        flow.advance(ledger, PIPELINE, run(9))
    assert re.findall(r"batch .*", caught.value.problem) == [
        f"batch {batches[0]} is planned, not tried yet",
        f"batch {batches[1]} is failed, last tried by write try 1 of {RUN.run_id}: the transform divides by zero",
        f"batch {batches[2]} is published, last tried by write try 1 of {RUN.run_id}",
    ]


def test_a_walk_that_comes_while_another_one_moves_heads_begins_where_that_one_ends(ledger, ledger_url):
    """It has read where the head was before, and would set it back: the ledger refuses that, and the run would fail without cause."""
    (stream,) = start_streams(ledger, 1)
    for number in range(3):
        published(ledger, {stream: (number * 10, number * 10 + 10)}, run=run(number))

    def advance():
        with Ledger(ledger_url, actor="second") as own:
            return heads.advance_published(own, PIPELINE)

    with ledger.transaction():
        reservations.lock_pipeline(ledger, PIPELINE)
        assert heads.walk(ledger, PIPELINE)
        second_ends = beside(advance)
        wait_for_a_lock(ledger_url)
    assert second_ends() == []
    assert next_offsets(ledger) == [30]


def test_an_advance_that_waits_for_a_plan_holds_nothing(ledger, ledger_url):
    """A plan abandons batches that no run writes. One of them may be published meanwhile: an advance that locks it and then waits for the plan's
    streams would deadlock with the plan."""
    streams = start_streams(ledger, 9)
    batch_id = published(ledger, dict.fromkeys(streams, (0, 10)))

    def advance():
        with Ledger(ledger_url, actor="second") as own:
            return heads.advance_published(own, PIPELINE)

    with ledger.transaction(), ledger.connection.cursor() as cursor:
        reservations.lock_pipeline(ledger, PIPELINE)
        cursor.execute("SELECT FROM tideline.stream FOR NO KEY UPDATE")
        advance_ends = beside(advance)
        wait_for_a_lock(ledger_url)
        cursor.execute("SELECT FROM tideline.batch FOR NO KEY UPDATE NOWAIT")
    assert advance_ends() == [batch_id]
    assert next_offsets(ledger) == [10] * 9


def test_a_head_moves_over_many_pieces_in_one_step(ledger):
    """Each step would be a statement under the locks of all heads, and an entry in the history."""
    (stream,) = start_streams(ledger, 1)
    for number in range(5):
        published(ledger, {stream: (number * 10, number * 10 + 10)}, run=run(number))
    with ledger.transaction():
        assert ledger.rows("pass_coverage", pipeline=PIPELINE) == [[stream]]
        assert ledger.rows("pass_coverage", pipeline=PIPELINE) == []
    assert query(ledger, "SELECT detail FROM tideline.event WHERE action = 'move head'") == [({"from": 0, "to": 50},)]
