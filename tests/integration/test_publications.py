"""What a run has published is told by the attempt that won, whoever planned the batch and whatever replaced it."""

from dataclasses import replace

from asking import query
from ledgers import PIPELINE, RUN, WRITER, claim, plan, publish, published, stage, start_streams
from tideline import flow
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import NamedRange
from tideline.domain.states import BatchKind
from tideline.ledger import reservations
from tideline.ledger.publications import Loaded
from tideline.ledger.reservations import Run

OTHER = Run(dag_id="impressions", run_id="manual__2")


def numbers(ledger, run):
    return [publication.batch_id for publication in flow.published_by(ledger, PIPELINE, run)]


def now(ledger):
    return query(ledger, "SELECT clock_timestamp()")[0][0]


def test_a_run_finds_its_batches_with_what_became_of_each_range(ledger):
    one, two = start_streams(ledger, 2)
    before = now(ledger)
    first = plan(ledger, {one: (0, 10), two: (0, 5)})
    stage(ledger, attempt := claim(ledger, first), n_filtered=1)
    publish(ledger, attempt, written={one: 9, two: 4})
    second = published(ledger, {one: (10, 20)})
    found = flow.published_by(ledger, PIPELINE, RUN)
    assert [(each.batch_id, each.kind) for each in found] == [(first, BatchKind.LIVE), (second, BatchKind.LIVE)]
    assert before <= found[0].published_at <= found[1].published_at <= now(ledger)
    counts = {"n_rejected": 0, "n_filtered": 1, "n_gap": 0}
    assert found[0].ranges == (
        Loaded(range=NamedRange("ads", 0, OffsetRange(0, 10)), n_read=10, n_written=9, **counts),
        Loaded(range=NamedRange("ads", 1, OffsetRange(0, 5)), n_read=5, n_written=4, **counts),
    )


def test_of_two_runs_that_work_on_a_batch_only_the_one_that_published_finds_it(ledger):
    (stream,) = start_streams(ledger, 1)
    batch_id = plan(ledger, {stream: (0, 10)})
    with ledger.transaction():
        reservations.join_run(ledger, PIPELINE, OTHER, [batch_id])
    claim(ledger, batch_id)
    stage(
        ledger, attempt := claim(ledger, batch_id, writer=replace(WRITER, run_id=OTHER.run_id), stale_after_seconds=-1)
    )
    assert (numbers(ledger, RUN), numbers(ledger, OTHER)) == ([], [])
    publish(ledger, attempt)
    assert (numbers(ledger, RUN), numbers(ledger, OTHER)) == ([], [batch_id])


def test_what_was_published_stays_told_after_the_heads_have_moved(ledger):
    (stream,) = start_streams(ledger, 1)
    batch_id = published(ledger, {stream: (0, 10)})
    flow.advance(ledger, PIPELINE, RUN)
    assert numbers(ledger, RUN) == [batch_id]
    assert flow.published_by(ledger, "another", RUN) == []


def test_a_line_about_a_batch_can_be_asked_for_again(ledger):
    one, two = start_streams(ledger, 2)
    batch_id = plan(ledger, {one: (0, 10), two: (3, 5)})
    [line] = flow.describe(ledger, [batch_id])
    assert line == f"batch {batch_id} (live): ads/0 [0, 10), ads/1 [3, 5)"
