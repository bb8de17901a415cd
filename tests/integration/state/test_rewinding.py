"""A rewind takes state, output, rejects and coverage back together, or not at all; what is loaded again gives the same."""

from contextlib import suppress

import pytest

from given_ledger.ledgers import query
from given_ledger.planners import NAME, coverage, run
from given_ledger.states import positions
from loads.by_hand import Folded
from tideline import flow
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import NamedRange, NewRecords
from tideline.domain.states import BatchState
from tideline.errors import FatalError, NeedsOperatorError
from tideline.ledger import attempts, rewinds
from tideline.ledger.attempts import Attempt, Writer
from tideline.ledger.connection import Ledger

WRITER = Writer(dag_id=NAME, run_id="other", task_id="write", try_number=1)


@pytest.fixture
def five(ledger):
    """Fold five batches, and remember what readers saw after each."""
    found = Folded(ledger, 24, 16)
    found.after = {0: found.seen()}
    for batch_id in found.ads.plan("one"):
        found.write(batch_id, "one")
        found.after[batch_id] = found.seen()
    flow.advance(ledger, NAME, run("one"))
    return found


def rewind(scene, to_batch, *, ledger=None, dry_run=False, by=None):
    return flow.rewind(
        ledger or scene.ledger,
        scene.ads.broker,
        scene.ads.pipeline,
        to_batch,
        reason="wrong processor",
        dry_run=dry_run,
        run=by,
    )


def refuses(scene, to_batch):
    """Return the error of a rewind that is refused. Nothing has changed."""
    before = scene.everything()
    with pytest.raises(FatalError) as caught:
        rewind(scene, to_batch)
    assert scene.everything() == before
    return caught.value


def test_after_a_rewind_to_any_batch_everything_is_as_it_was_and_loaded_again_it_is_the_same(five):
    whole = five.seen()
    assert len(five.after) == 6
    boundaries = [0, 1, 2, 3, 4]
    for round_, to_batch in enumerate(boundaries):
        # What a batch is called after it was loaded again: the batches are numbered on, their ranges are the same.
        folded = query(five.ledger, "SELECT batch_id FROM tideline.state_batch WHERE undo = 'kept' ORDER BY seq")
        name = folded[to_batch - 1][0] if to_batch else 0
        done = rewind(five, name)
        assert five.seen() == five.after[to_batch]
        assert len(done.undone) == len(done.planned) == 5 - to_batch
        assert five.load(f"again {round_}") == list(done.planned)
        assert five.seen() == whole
    assert query(
        five.ledger,
        "SELECT count(*) FROM tideline.state_undo u LEFT JOIN tideline.state_batch b USING (batch_id) WHERE undo <> 'kept'",
    ) == [(0,)]


def test_a_dry_run_says_what_would_happen_and_changes_nothing(five):
    before = five.everything()
    draft = rewind(five, 2, dry_run=True)
    assert five.everything() == before
    done = rewind(five, 2)
    assert (draft.undone, draft.abandoned, draft.n_rows) == (done.undone, done.abandoned, done.n_rows)
    assert done.undone == (5, 4, 3)
    assert done.n_rows == len(five.after[5]["rows"]) - len(five.after[2]["rows"])
    assert done.n_rows > 0


def test_a_rewind_that_is_killed_before_any_of_its_statements_has_changed_nothing(five, ledger_url):
    five.ads.logs[0].append(4)
    five.ads.plan("open")
    before = five.everything()

    class Killed(BaseException):
        """The process dies."""

    class Dying(Ledger):
        left = 0

        def step(self):
            if self.left == 0:
                self.connection.close()
                raise Killed
            self.left -= 1

        def rows_of(self, query, parameters):
            self.step()
            return super().rows_of(query, parameters)

        def run_sql(self, query, parameters):
            self.step()
            return super().run_sql(query, parameters)

    for left in range(200):
        with Dying(ledger_url, actor="ada") as dying:
            dying.left = left
            try:
                rewind(five, 2, ledger=dying)
            except Killed:
                if query(five.ledger, "SELECT rewind_id FROM tideline.rewind"):
                    break  # after the commit, the heads are moved
                assert five.everything() == before, f"killed before statement {left}"
                continue
        break
    assert left > 25
    assert five.seen() == five.after[2]


def test_runs_load_what_was_rewound_before_anything_new(five):
    rewind(five, 3)
    five.ads.logs[0].append(4)
    assert [part[2] for part in coverage(five.ledger)].count("rewound") >= 1
    batch_ids = five.load("two")
    assert batch_ids == sorted(batch_ids)
    assert len(batch_ids) == 3
    assert "rewound" not in [part[2] for part in coverage(five.ledger)]
    assert {row[0] for row in positions(five.ledger).values()} == {28, 16}


def test_what_was_rewound_is_planned_again_when_its_batch_is_given_up(five):
    """Or its records would be missing without a trace, and nothing after them could be folded."""
    whole = five.seen()
    done = rewind(five, 2)
    for batch_id in done.planned:
        flow.abandon(five.ledger, batch_id, reason="too large")
    five.load("two")
    assert {name: found for name, found in five.seen().items() if name != "states"} == {
        name: found for name, found in whole.items() if name != "states"
    }
    assert five.seen() == whole


def test_what_was_rewound_and_is_poison_can_be_skipped(five):
    done = rewind(five, 4)
    stream, start, end = query(five.ledger, "SELECT stream_id, lower(offsets), upper(offsets) FROM tideline.batch_range"
                               " WHERE batch_id = %s ORDER BY 1 LIMIT 1", done.planned[0])[0]  # fmt: skip
    piece = NamedRange("ads", stream - 1, OffsetRange(start + 1, end))
    flow.skip(five.ledger, five.ads.broker, five.ads.pipeline, piece, reason="poison")
    five.load("two")
    assert [part for part in coverage(five.ledger, stream - 1) if isinstance(part[2], str)] == [
        (start + 1, end, "skipped")
    ]
    five.ads.logs[stream - 1].append(4)
    five.load("three")
    assert positions(five.ledger)[stream][0] == end + 4


def test_what_was_rewound_and_is_gone_from_kafka_needs_a_decision(five):
    done = rewind(five, 4)
    piece = next(one for one in attempts.ranges(five.ledger, done.planned[0]))
    flow.abandon(five.ledger, done.planned[0], reason="cannot be read")
    five.ads.logs[piece.partition].delete_before(piece.offsets.end)
    with pytest.raises(NeedsOperatorError, match="was rewound, and Kafka holds") as caught:
        five.ads.plan("two")
    assert f"tideline skip {NAME} 'ads/{piece.partition} {piece.offsets}'" in caught.value.next_step
    flow.skip(
        five.ledger,
        five.ads.broker,
        five.ads.pipeline,
        NamedRange("ads", piece.partition, piece.offsets),
        reason="gone",
    )
    five.load("two")


def test_batches_that_were_rewound_are_superseded_and_never_written_again(five):
    rewind(five, 3)
    assert query(five.ledger, "SELECT state::text FROM tideline.batch ORDER BY batch_id") == [
        *[("advanced",)] * 3, *[("superseded",)] * 2, *[("planned",)] * 2]  # fmt: skip
    assert flow.claim(five.ledger, 5, WRITER) is BatchState.SUPERSEDED
    finished = flow.plan(five.ledger, five.ads.broker, five.ads.pipeline, run("one"), NewRecords())
    assert finished.batch_ids == [1, 2, 3, 4, 5], "a run that is cleared finds its batches, and nothing to write"


def test_open_batches_are_given_up_and_planned_again(five):
    five.ads.logs[0].append(4)
    (open_,) = five.ads.plan("open")
    done = rewind(five, 4)
    assert done.abandoned == (open_,)
    five.load("two")
    assert {row[0] for row in positions(five.ledger).values()} == {28, 16}


def test_a_living_attempt_is_in_the_way(five):
    five.ads.logs[0].append(4)
    (open_,) = five.ads.plan("other")
    attempt = flow.claim(five.ledger, open_, WRITER)
    assert isinstance(attempt, Attempt)
    assert refuses(five, 2).entry == "batch-is-being-written"


def test_what_kafka_no_longer_holds_is_not_rewound_and_the_earliest_boundary_is_named(five):
    [(start,)] = query(
        five.ledger, "SELECT lower(offsets) FROM tideline.batch_range WHERE batch_id = 4 AND stream_id = 1"
    )
    five.ads.logs[0].delete_before(start)
    error = refuses(five, 0)
    assert f"tideline rewind {NAME} --to-batch 3 --reason" in error.next_step
    assert "Kafka holds" in error.problem
    rewind(five, 3)
    assert five.seen() == five.after[3]


def test_what_was_pruned_is_not_rewound_and_the_earliest_boundary_is_named(five):
    assert rewinds.prune(five.ledger, NAME, 3) == [f"{NAME}: undo of 2 batches deleted; the last 3 can be rewound"]
    assert rewinds.prune(five.ledger, NAME, 3) == []
    error = refuses(five, 1)
    assert f"tideline rewind {NAME} --to-batch 2 --reason" in error.next_step
    assert "its undo was pruned" in error.problem
    rewind(five, 2)
    assert five.seen() == five.after[2]


def test_the_newest_batch_is_never_named_as_a_boundary(five):
    assert rewinds.prune(five.ledger, NAME, 0)
    error = refuses(five, 2)
    assert "cannot go back to before batch 5" in error.problem
    assert "--to-batch" not in error.next_step


@pytest.mark.parametrize(("to_batch", "problem"), [(5, "no batch was folded after"), (99, "is not folded")])
def test_only_a_batch_that_is_folded_and_not_the_last_one_is_a_boundary(five, to_batch, problem):
    error = refuses(five, to_batch)
    assert problem in error.problem
    assert error.entry == "cannot-rewind"


def test_a_run_that_rewinds_gets_the_batches_itself_and_goes_back_once(five):
    """Its task may be tried again after the commit, or be cleared when everything is loaded again."""
    whole = five.seen()
    done = rewind(five, 2, by=run("back"))
    repeated = rewind(five, 2, by=run("back"))
    assert (repeated.undone, repeated.planned) == ((), done.planned)
    for batch_id in done.planned:
        five.write(batch_id, "back")
    assert five.seen() == whole
    cleared = rewind(five, 2, by=run("back"))
    assert (cleared.undone, cleared.planned) == ((), done.planned)
    assert five.seen() == whole


def test_a_run_whose_batches_were_given_up_does_not_rewind_again(five):
    done = rewind(five, 2, by=run("back"))
    for batch_id in done.planned:
        flow.abandon(five.ledger, batch_id, reason="too large")
    five.load("two")
    whole = five.seen()
    repeated = rewind(five, 2, by=run("back"))
    assert (repeated.undone, repeated.planned) == ((), ())
    assert five.seen() == whole


def test_a_pipeline_without_a_state_is_not_rewound(five):
    five.ads.pipeline = five.ads.pipeline.model_copy(update={"state": None})
    error = refuses(five, 2)
    assert "only a pipeline with a state is rewound" in error.problem
    assert f"tideline replay {NAME}" in error.next_step


def test_a_rewind_and_a_reload_raise_the_version_of_each_position(five):
    """A batch that has read before both is refused by it, although offsets and undo are the same: the state may be another one."""
    with suppress(FatalError):
        rewind(five, 5)
    before = {stream: version for stream, (_, _, version, _) in positions(five.ledger).items()}
    rewind(five, 4)
    five.load("two")
    after = {stream: version for stream, (_, _, version, _) in positions(five.ledger).items()}
    moved = [stream for stream in before if after[stream] != before[stream]]
    assert moved
    assert all(after[stream] == before[stream] + 2 for stream in moved)


def test_a_rewind_of_a_retired_pipeline_brings_it_back_because_it_plans(five):
    assert flow.retire(five.ledger, NAME, reason="given up")
    rewind(five, 2, dry_run=True)
    retired = "SELECT retired_at IS NOT NULL FROM tideline.pipeline"
    assert query(five.ledger, retired) == [(True,)]
    rewind(five, 2)
    assert query(five.ledger, retired) == [(False,)]
