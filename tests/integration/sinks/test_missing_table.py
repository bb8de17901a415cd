"""A Delta table that was written and is not there is refused: its storage may not be mounted. With real folders, on a real ledger."""

import pytest

from given_ledger.ledgers import query, state
from given_ledger.planners import NAME, Brokerless
from loads.lake_tables import N, doctors
from loads.outside_log import WHY
from tideline import flow
from tideline.declaration.delta import DeltaSink
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import NamedRange
from tideline.errors import FatalError, NeedsOperatorError, RetryableError, SupersededError
from tideline.reports import decisions
from tideline.reports.checks.outside import commits


def skip(mounted, _):
    flow.skip(
        mounted.ledger, mounted.ads.broker, mounted.ads.pipeline, NamedRange("ads", 0, OffsetRange(0, N)), reason=WHY
    )


def accept_loss(mounted, _):
    mounted.ads.logs[0].cut(3)
    flow.accept_loss(mounted.ledger, mounted.ads.broker, mounted.ads.pipeline, "ads", 0, reason=WHY)


def adopt_topic(mounted, _):
    mounted.ads.cluster.delete("ads")
    mounted.ads.cluster.create("ads", N)
    flow.adopt_topic(mounted.ledger, mounted.ads.broker, mounted.ads.pipeline, "ads", reason=WHY)


ACTS = {
    "recover": lambda mounted, batch: mounted.recover(mounted.claim(batch)),
    "prepare": lambda mounted, batch: mounted.prepared(mounted.claim(batch)),
    "abandon": lambda mounted, batch: flow.abandon(mounted.ledger, batch, reason=WHY),
    "abandon by force": lambda mounted, batch: flow.abandon(mounted.ledger, batch, reason=WHY, force=True),
    "skip": skip,
    "accept a loss": accept_loss,
    "adopt a topic": adopt_topic,
    "upkeep": lambda mounted, _: flow.upkeep(mounted.ledger, mounted.ads.pipeline),
    "doctor compares receipts": lambda mounted, _: doctors(mounted),
    "doctor tries commits": lambda mounted, _: list(commits(mounted.ledger, mounted.ads.pipeline)),
}


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_nothing_is_created_fenced_or_given_up_where_a_table_is_missing_that_an_attempt_was_to_commit_to(mounted, act):
    """The crash that would break it: the fence goes to the empty mount point, and the frozen attempt commits when it thaws."""
    frozen = mounted.doubtful()
    batch = frozen.attempt.batch_id
    mounted.unmount()
    with pytest.raises(
        NeedsOperatorError, match=rf"attempt 1 of batch {batch} was to commit to it.*found no table there"
    ) as caught:
        act(mounted, batch)
    assert caught.value.entry == "delta-table-is-missing"
    assert f"tideline recreate-table {NAME}" in caught.value.next_step
    assert state(mounted.ledger, batch)[0] != "abandoned"
    mounted.mount_again()
    frozen.again()
    mounted.fall_silent()
    assert mounted.recover(mounted.claim(batch)) is not None
    assert mounted.rows() == [(batch, offset) for offset in range(N)]


def test_a_new_batch_is_not_written_where_an_earlier_ones_table_is_missing(mounted):
    first = mounted.loaded()
    second = mounted.plan("second")
    mounted.unmount()
    with pytest.raises(NeedsOperatorError, match=f"attempt 1 of batch {first} was to commit"):
        mounted.prepared(mounted.claim(second))
    mounted.mount_again()
    assert {batch for batch, _ in mounted.rows()} == {first}


def test_an_attempt_whose_storage_vanishes_before_its_commit_commits_nothing(mounted):
    mounted.loaded()
    attempted = mounted.prepared(mounted.claim(mounted.plan("second")), before=mounted.unmount)
    with pytest.raises(NeedsOperatorError, match="attempt 1 of batch 2 was to commit to it") as caught:
        mounted.write(attempted)
    assert caught.value.entry == "delta-table-is-missing"
    assert not (mounted.table / "_delta_log").exists()


def test_a_batch_that_was_only_claimed_is_no_evidence(mounted):
    """The first load of a pipeline creates its table, also after an attempt that died before it."""
    batch = mounted.plan()
    mounted.claim(batch)
    mounted.fall_silent()
    retry = mounted.claim(batch)
    assert mounted.recover(retry) is None
    mounted.write(mounted.prepared(retry))
    assert mounted.rows() == [(batch, offset) for offset in range(N)]


def test_a_table_at_another_address_begins_anew(mounted):
    mounted.loaded()
    second = mounted.plan("second")
    other = DeltaSink(kind="delta", path=str(mounted.mount / "other"))
    mounted.ads.pipeline = mounted.ads.pipeline.model_copy(update={"sink": other})
    mounted.write(mounted.prepared(mounted.claim(second)))
    assert {batch for batch, _ in mounted.rows()} == {second}


def recreate(mounted):
    return flow.recreate_table(mounted.ledger, mounted.ads.pipeline, reason=WHY)


def test_a_table_that_was_removed_on_purpose_begins_anew_by_a_decision(mounted):
    first = mounted.loaded()
    frozen = mounted.prepared(mounted.claim(mounted.plan("second")))
    mounted.unmount()
    assert (recreate(mounted), recreate(mounted)) == (True, False)
    assert query(
        mounted.ledger,
        "SELECT pipeline, detail->>'reason', detail->>'output' FROM tideline.event WHERE action = 'recreate table'",
    ) == [(NAME, WHY, f"Delta table {mounted.table}")]
    # An attempt that has prepared the former table would commit columns that the new one does not have.
    with pytest.raises(RetryableError, match="was created anew since it began"):
        mounted.write(frozen)
    mounted.fall_silent()
    retry = mounted.claim(frozen.attempt.batch_id)
    assert mounted.recover(retry) is None
    with pytest.raises(SupersededError):
        frozen.again()
    mounted.write(mounted.prepared(retry))
    assert mounted.rows() == [(2, offset) for offset in range(N, 2 * N)]
    [check] = doctors(mounted)
    assert (check.verdict, f"batch {first}: no receipt" in check.found) == ("bad", True)


def test_only_a_delta_table_that_was_written_is_begun_anew(mounted):
    with pytest.raises(FatalError, match="found that no attempt was to commit to it"):
        recreate(mounted)
    mounted.loaded()
    with pytest.raises(FatalError, match="a decision needs a reason"):
        flow.recreate_table(mounted.ledger, mounted.ads.pipeline, reason=" ")
    inside = Brokerless(mounted.ledger, 1).pipeline
    with pytest.raises(FatalError, match=r"expected a Delta table as output, found"):
        flow.recreate_table(mounted.ledger, inside, reason=WHY)


def test_the_command_says_whether_it_has_created_the_table(mounted, monkeypatch):
    monkeypatch.setenv("TIDELINE_LEDGER_URL", mounted.url)
    monkeypatch.setattr(decisions.pipelines, "load_named", lambda _: mounted.ads.pipeline)
    mounted.loaded()
    mounted.unmount()
    said = [decisions.recreate_table(NAME, reason=WHY) for _ in range(2)]
    assert [page.document["created"] for page in said] == [True, False]
    assert said[0].parts == [
        f"Delta table {mounted.table}: created, empty; replay the batches whose rows it shall have again"
    ]
    assert said[1].parts == [f"Delta table {mounted.table}: is there; nothing was changed"]
