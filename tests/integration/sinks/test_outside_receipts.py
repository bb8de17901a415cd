"""Replays and batches of rejects that were committed outside are settled, and receipts that do not fit the ledger need a person."""

from typing import Any
from uuid import UUID

import pytest

from given_ledger.ledgers import query, refused, state
from given_ledger.planners import Brokerless
from loads.outside_log import WHY, KilledError, OutsideLog, Scene, failed, killed
from tideline import flow
from tideline.declaration.delta import DeltaSink
from tideline.declaration.sections import FromEnvironment
from tideline.domain.offsets import OffsetRange
from tideline.domain.receipts import Receipt
from tideline.domain.requests import KeptRejects, NamedRange, Ranges
from tideline.errors import FatalError, NeedsOperatorError
from tideline.flow import settling
from tideline.ledger import attempts
from tideline.sinks.delta.kind import DeltaTables
from tideline.sinks.outside import UncertainError

# Replays and re-drives --------------------------------------------------------------------------------------------------


def replayed(scene: Scene, name: str) -> Any:
    request = Ranges(ranges=(NamedRange("ads", 0, OffsetRange(2, 6)),), replace=True)
    return scene.ads.ask(name, request, reason=WHY)


def test_only_one_replay_of_an_offset_is_open(scene):
    scene.load(scene.plan(), 3)
    [one] = replayed(scene, "one").batch_ids
    other = replayed(scene, "other")
    assert (other.batch_ids, len(other.notes)) == ([], 1)
    assert f"batch {one}, a replay" in other.notes[0]
    redrive = scene.ads.ask("redrive", KeptRejects(), reason=WHY)
    assert redrive.batch_ids == []
    flow.abandon(scene.ledger, one, reason=WHY)
    assert len(scene.ads.ask("redrive", KeptRejects(), reason=WHY).batch_ids) == 1


def test_a_replay_that_was_committed_is_settled_and_supersedes(scene):
    scene.load(scene.plan(), 3)
    [replay] = replayed(scene, "one").batch_ids
    first = scene.claim(replay)
    with pytest.raises(KilledError):
        scene.publish(first, scene.output(first, 4, after=killed))
    assert scene.recover(scene.claim(replay)) is not None
    assert (state(scene.ledger, replay)[0], scene.counts(replay)) == ("published", (4, 3, 1))
    assert query(scene.ledger, "SELECT kafka_offset::int FROM tideline.reject") == [(4,)]


# Nothing to write, and rejects only --------------------------------------------------------------------------------------


def test_a_batch_of_rejects_only_is_committed_empty_and_settled(scene):
    batch = scene.plan()
    first = scene.claim(batch)
    with pytest.raises(KilledError):
        scene.publish(first, scene.output(first, *range(10), after=killed))
    assert scene.recover(scene.claim(batch)) is not None
    assert (scene.log.rows[batch], scene.counts(batch)) == ([], (10, 0, 10))


# Doubtful receipts --------------------------------------------------------------------------------------------------------


def test_a_receipt_of_an_attempt_that_the_ledger_does_not_know_needs_a_person(scene):
    batch = scene.plan()
    scene.claim(batch)
    retry = scene.claim(batch)
    strange = Receipt(fence=1, attempt=retry.attempt)
    scene.log.commit(retry.batch, strange, [])
    with pytest.raises(NeedsOperatorError, match="does not know") as caught:
        scene.recover(retry)
    assert caught.value.entry == "receipt-of-another-ledger"
    assert state(scene.ledger, batch)[0] == "writing"


def test_a_first_attempt_that_finds_a_receipt_stages_nothing(scene):
    """The batch was open at the moment to which the ledger was restored, and an attempt has committed it since."""
    batch = scene.plan()
    before = scene.known(batch)
    scene.log.commit(before, Receipt(fence=1, attempt=UUID(int=9)), [(1, 1)])
    with pytest.raises(NeedsOperatorError, match="does not know") as caught:
        scene.load(batch)
    assert caught.value.entry == "receipt-of-another-ledger"
    assert query(scene.ledger, "SELECT count(*) FROM tideline.staged_count") == [(0,)]
    assert (scene.log.rows, scene.log.attempts) == ({batch: [(1, 1)]}, {before.identity: UUID(int=9)})


def test_what_a_restore_of_the_output_has_taken_back_is_not_published_but_given_up(scene):
    """The ledger has its intent, and the table has its receipt. Its rows would be lost."""
    batch, first = failed(scene, after=killed)
    scene.log.gone.add(first.identity)
    with pytest.raises(NeedsOperatorError, match="restored to a moment before") as caught:
        scene.recover(scene.claim(batch))
    assert (caught.value.entry, state(scene.ledger, batch)[0]) == ("output-was-restored", "writing")
    query(scene.ledger, "UPDATE tideline.attempt SET heartbeat_at = heartbeat_at - interval '1 hour'")
    flow.abandon(scene.ledger, batch, reason=WHY)
    again = scene.plan("again")
    scene.load(again)
    assert (state(scene.ledger, batch)[0], scene.counts(again)) == ("abandoned", (10, 10, 0))


def test_an_intent_older_than_the_memory_of_the_sink_needs_a_person(scene):
    batch, _ = failed(scene, before=killed)
    scene.log.remembers_days = 0.0
    with pytest.raises(NeedsOperatorError, match="forgotten"):
        scene.recover(scene.claim(batch))
    query(scene.ledger, "UPDATE tideline.attempt SET heartbeat_at = heartbeat_at - interval '1 hour'")
    with pytest.raises(NeedsOperatorError, match="forgotten"):
        flow.abandon(scene.ledger, batch, reason=WHY)
    flow.abandon(scene.ledger, batch, reason=WHY, force=True)
    assert state(scene.ledger, batch)[0] == "abandoned"


def test_a_batch_of_which_the_output_does_not_tell_is_given_up_by_force_only_and_fenced(scene, monkeypatch):
    batch, _ = failed(scene, before=killed)

    class Silent(OutsideLog):
        def fence(self, batch_id, fence):
            raise UncertainError("neither receipt nor records", next_step="look", entry="receipt-may-be-forgotten")

    def asked(*_, searching=True):
        return Silent() if searching else scene.log

    monkeypatch.setattr(DeltaTables, "outside", asked)
    with pytest.raises(UncertainError):
        flow.abandon(scene.ledger, batch, reason=WHY)
    flow.abandon(scene.ledger, batch, reason=WHY, force=True)
    assert state(scene.ledger, batch)[0] == "abandoned"
    assert [one for one, _ in scene.log.fenced] == [batch]


def test_another_sink_than_the_one_that_may_have_the_batch_is_refused(scene):
    batch, _ = failed(scene, after=killed)
    scene.ads.pipeline = scene.ads.pipeline.model_copy(update={"sink": DeltaSink(kind="delta", path="/other")})
    with pytest.raises(NeedsOperatorError, match="may have committed it to Delta table /lake"):
        scene.recover(scene.claim(batch))
    inside = Brokerless(scene.ledger, 1).pipeline
    with pytest.raises(NeedsOperatorError, match="was planned for an output outside"):
        settling.recover(scene.ledger, inside, scene.claim(batch))


def led_elsewhere(scene, monkeypatch, tmp_path):
    """Let an attempt commit to the table of a variable and die, and let the variable lead elsewhere. Return the attempt and the former path."""
    monkeypatch.setenv("LAKE", str(tmp_path / "first"))
    sink = DeltaSink(kind="delta", path=FromEnvironment(env="LAKE"))
    scene.ads.pipeline = scene.ads.pipeline.model_copy(update={"sink": sink})
    _, first = failed(scene, after=killed)
    monkeypatch.setenv("LAKE", str(tmp_path / "second"))
    return first, str(tmp_path / "first")


def test_an_output_of_the_same_name_in_another_place_is_neither_asked_nor_fenced(scene, monkeypatch, tmp_path):
    first, former = led_elsewhere(scene, monkeypatch, tmp_path)
    batch = first.batch_id
    elsewhere = f"may have committed it to Delta table {former}; the declaration leads to"
    for act in (
        lambda: scene.recover(scene.claim(batch)),
        lambda: flow.abandon(scene.ledger, batch, reason=WHY),
    ):
        with pytest.raises(NeedsOperatorError, match=elsewhere):
            act()
        query(scene.ledger, "UPDATE tideline.attempt SET heartbeat_at = heartbeat_at - interval '1 hour'")
    assert scene.log.fenced == []
    monkeypatch.setenv("LAKE", former)
    assert scene.recover(scene.claim(batch)) is not None
    assert state(scene.ledger, batch)[0] == "published"


def test_a_batch_whose_output_does_not_exist_any_more_is_given_up_by_force(scene, monkeypatch, tmp_path):
    first, _ = led_elsewhere(scene, monkeypatch, tmp_path)
    attempts.fail(scene.ledger, first, "killed")
    flow.abandon(scene.ledger, first.batch_id, reason=WHY, force=True)
    assert state(scene.ledger, first.batch_id)[0] == "abandoned"
    assert scene.log.fenced == []
    assert flow.move_output(scene.ledger, scene.ads.broker, scene.ads.pipeline, reason=WHY)[1].endswith("second")


def test_what_a_seal_has_ruled_out_binds_no_batch_to_the_former_output(scene, monkeypatch, tmp_path):
    scene.load(scene.plan(), 3)
    [batch] = replayed(scene, "again").batch_ids
    first = scene.claim(batch)
    with pytest.raises(KilledError):
        scene.publish(first, scene.output(first, before=killed))
    attempts.fail(scene.ledger, first, "killed")
    second = scene.claim(batch)
    assert scene.recover(second) is None, "fences and seals"
    attempts.fail(scene.ledger, second, "killed")
    move(scene, scene.ads.pipeline.model_copy(update={"sink": DeltaSink(kind="delta", path="/other")}))
    assert scene.recover(scene.claim(batch)) is None


def test_an_output_does_not_move_while_a_batch_may_have_been_committed_to_it(scene, monkeypatch, tmp_path):
    first, _ = led_elsewhere(scene, monkeypatch, tmp_path)
    attempts.fail(scene.ledger, first, "killed")
    with pytest.raises(FatalError, match=f"may have committed to the former output, found {first.batch_id}"):
        flow.move_output(scene.ledger, scene.ads.broker, scene.ads.pipeline, reason=WHY)
    theirs = "UPDATE tideline.claimed_output SET place = '/other'"
    assert "a batch may have been committed to it" in refused(
        scene.ledger, f"SET LOCAL tideline.reason = 'mine'; {theirs}"
    )


def move(scene, pipeline):
    """Let the pipeline declare another output, and move it there."""
    scene.ads.pipeline = pipeline
    flow.move_output(scene.ledger, scene.ads.broker, pipeline, reason=WHY)


def test_a_replay_planned_for_a_table_is_neither_written_nor_overtaken_when_the_sink_is_outside(scene):
    """Written later, it would take offsets between the commit and the settlement of a replay of the new sink."""
    scene.load(scene.plan(), 3)
    outside_sink, inside_sink = scene.ads.pipeline, Brokerless(scene.ledger, 1).pipeline
    move(scene, inside_sink)
    [before] = replayed(scene, "before").batch_ids
    move(scene, outside_sink)
    for request in (lambda: replayed(scene, "after"), lambda: scene.ads.ask("redrive", KeptRejects(), reason=WHY)):
        assert request().batch_ids == []
        assert (
            f"batch {before}, a replay, is planned: ask again when it is published or abandoned" in request().notes[0]
        )
    with pytest.raises(NeedsOperatorError, match="was planned for an output in the ledger's database") as caught:
        scene.recover(scene.claim(before))
    assert f"tideline abandon {before}" in caught.value.next_step
    query(scene.ledger, "UPDATE tideline.attempt SET heartbeat_at = heartbeat_at - interval '1 hour'")
    flow.abandon(scene.ledger, before, reason=WHY)
    [after] = replayed(scene, "after").batch_ids
    move(scene, inside_sink)
    assert f"batch {after}, a replay" in replayed(scene, "again").notes[0]
