"""What may be committed outside is fenced before it is abandoned, and what is committed cannot be abandoned."""

import pytest

from given_ledger.ledgers import query, state
from loads.outside_log import WHY, OutsideLog, all_rows, failed, killed
from tideline import flow
from tideline.domain.offsets import OffsetRange
from tideline.domain.receipts import Receipt
from tideline.domain.requests import NamedRange
from tideline.errors import FatalError, NeedsOperatorError, RetryableError, SupersededError
from tideline.ledger import attempts
from tideline.ledger.connection import Ledger
from tideline.sinks.delta.kind import DeltaTables


def test_what_is_committed_cannot_be_abandoned(scene):
    batch, _ = failed(scene, after=killed)
    with pytest.raises(FatalError, match=rf"committed by attempt 1(.|\n)*tideline retry {batch}"):
        flow.abandon(scene.ledger, batch, reason=WHY)
    with pytest.raises(FatalError, match="committed by attempt 1"):
        flow.abandon(scene.ledger, batch, reason=WHY, force=True)
    retry = scene.claim(batch)
    assert scene.recover(retry) is not None


def test_what_is_abandoned_is_fenced_first_and_never_becomes_visible(scene):
    batch, first = failed(scene, before=killed)
    flow.abandon(scene.ledger, batch, reason=WHY)
    assert state(scene.ledger, batch) == ("abandoned", 1)
    with pytest.raises(SupersededError):
        scene.log.commit(first.batch, first.receipt, [])
    again = scene.plan("second")
    scene.load(again)
    assert scene.log.rows == {again: all_rows(scene)}


def test_a_living_attempt_that_is_forced_out_never_commits(scene):
    batch = scene.plan()
    first = scene.claim(batch)

    def forced_out() -> None:
        with Ledger(scene.url, actor="operator") as other:
            flow.abandon(other, batch, reason=WHY, force=True)

    with pytest.raises(SupersededError):
        scene.publish(first, scene.output(first, before=forced_out))
    assert (state(scene.ledger, batch), scene.log.rows) == (("abandoned", 2), {})


def test_a_batch_that_was_claimed_again_since_the_fence_is_fenced_once_more(scene, monkeypatch):
    batch, _ = failed(scene, before=killed)
    fence, claimed = scene.log.fence, []

    class Slow(OutsideLog):
        def fence(self, batch_id: int, at: int) -> Receipt | None:
            if not claimed:
                claimed.append(scene.claim(batch))
                query(scene.ledger, "UPDATE tideline.attempt SET heartbeat_at = heartbeat_at - interval '1 hour'")
            return fence(batch_id, at)

    monkeypatch.setattr(DeltaTables, "outside", lambda *_, **__: Slow())
    flow.abandon(scene.ledger, batch, reason=WHY)
    assert scene.log.fenced == [(batch, 2), (batch, 3)]
    assert state(scene.ledger, batch) == ("abandoned", 2)


def test_a_skip_of_offsets_that_are_committed_is_refused(scene):
    _, _ = failed(scene, after=killed)
    piece = NamedRange("ads", 0, OffsetRange(0, 10))
    with pytest.raises(FatalError, match="committed by attempt 1"):
        flow.skip(scene.ledger, scene.ads.broker, scene.ads.pipeline, piece, reason=WHY)
    assert query(scene.ledger, "SELECT 1 FROM tideline.coverage") == []


def test_a_skip_of_offsets_that_are_not_committed_fences_them_first(scene):
    batch, _ = failed(scene, before=killed)
    piece = NamedRange("ads", 0, OffsetRange(0, 10))
    assert flow.skip(scene.ledger, scene.ads.broker, scene.ads.pipeline, piece, reason=WHY) == [batch]
    assert scene.log.fenced == [(batch, 2)]


def test_a_plan_leaves_what_may_be_committed_to_write_and_gives_it_up_once_it_is_sealed(scene):
    batch, _ = failed(scene, before=killed)
    scene.ads.logs[0].delete_before(3)  # the stream stops: its batches cannot be read as they were planned
    assert scene.ads.plan("second") == [batch]
    retry = scene.claim(batch)
    assert scene.recover(retry) is None
    with pytest.raises(NeedsOperatorError):
        flow.check_source(scene.ledger, scene.ads.broker, retry)
    attempts.fail(scene.ledger, retry, "offsets are gone")
    with pytest.raises(NeedsOperatorError):
        scene.ads.plan("third")
    assert state(scene.ledger, batch) == ("abandoned", 2)


def test_a_batch_without_an_intent_is_given_up_without_the_sink(scene):
    batch = scene.plan()
    scene.claim(batch)
    query(scene.ledger, "UPDATE tideline.attempt SET heartbeat_at = heartbeat_at - interval '1 hour'")
    scene.log.answers = False
    flow.abandon(scene.ledger, batch, reason=WHY)
    assert state(scene.ledger, batch)[0] == "abandoned"


def test_a_sink_that_does_not_answer_keeps_the_batch_from_being_abandoned(scene):
    batch, _ = failed(scene, before=killed)
    scene.log.answers = False
    with pytest.raises(RetryableError):
        flow.abandon(scene.ledger, batch, reason=WHY)
    assert state(scene.ledger, batch) == ("writing", 1)


@pytest.mark.parametrize("verb", ["abandon", "skip"])
def test_a_dry_run_of_a_decision_asks_no_sink_and_changes_nothing(scene, verb):
    batch, _ = failed(scene, before=killed)
    tables = ("batch", "coverage", "event", "intent", "stream")
    before = {table: query(scene.ledger, f"SELECT t::text FROM tideline.{table} t ORDER BY 1") for table in tables}
    if verb == "abandon":
        flow.abandon(scene.ledger, batch, reason=WHY, dry_run=True)
    else:
        piece = NamedRange("ads", 0, OffsetRange(0, 10))
        pipeline = scene.ads.pipeline
        assert flow.skip(scene.ledger, scene.ads.broker, pipeline, piece, reason=WHY, dry_run=True) == [batch]
    assert scene.log.fenced == []
    assert {
        table: query(scene.ledger, f"SELECT t::text FROM tideline.{table} t ORDER BY 1") for table in tables
    } == before
