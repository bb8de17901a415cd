"""When heads move: over published batches only, in order, all heads of a batch at once, each once."""

import re

import pytest

from asking import query
from ledgers import PIPELINE, RUN, claim, plan, publish, published, stage, start_streams
from racing import together
from tideline import flow
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


def test_all_heads_of_a_batch_move_or_none(ledger):
    one, two = start_streams(ledger, 2)
    plan(ledger, {one: (0, 10)}, run=run(1))
    published(ledger, {one: (10, 20), two: (0, 5)}, run=run(2))
    assert heads.advance_published(ledger, PIPELINE) == []
    assert next_offsets(ledger) == [0, 0]


def test_advances_at_once_move_each_head_once(ledger, ledger_url):
    (stream,) = start_streams(ledger, 1)
    batch_ids = [published(ledger, {stream: (n * 10, n * 10 + 10)}, run=run(n)) for n in range(6)]

    def advance():
        with Ledger(ledger_url, actor="thread") as own:
            return heads.advance_published(own, PIPELINE)

    moved = together(*[advance] * 4)
    assert sorted(batch for part in moved for batch in part) == batch_ids
    assert next_offsets(ledger) == [60]
    assert query(ledger, "SELECT count(*) FROM tideline.event WHERE action IN ('advance', 'move head')") == [(12,)]


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
