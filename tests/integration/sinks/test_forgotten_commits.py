"""Delta forgets commits after a month, and with them whose they were. The version of a batch stays."""

import pytest

from given_ledger.ledgers import state
from loads.lake_tables import N, doctors
from loads.outside_log import WHY
from tideline import flow
from tideline.sinks.outside import ForgottenError


def test_doctor_asks_no_person_about_a_published_batch_whose_commit_is_forgotten(mounted):
    mounted.loaded()
    mounted.forget()
    [check] = doctors(mounted)
    assert (check.verdict, "each as the ledger has it" in check.found) == ("ok", True)


def test_doctor_asks_about_a_forgotten_commit_of_another_fence_than_the_ledger_has(mounted):
    batch = mounted.plan()
    mounted.claim(batch)
    mounted.fall_silent()
    stranger = mounted.prepared(mounted.claim(batch))
    stranger.again()
    mounted.forget()
    [check] = doctors(mounted)
    assert check.verdict == "bad"
    assert f"batch {batch} by attempt 2, whose commit is forgotten" in check.found


def test_a_batch_whose_commit_is_forgotten_before_it_is_settled_needs_a_person(mounted):
    frozen = mounted.doubtful()
    batch = frozen.attempt.batch_id
    frozen.again()
    mounted.forget()
    for act in (
        lambda: mounted.recover(mounted.claim(batch)),
        lambda: flow.abandon(mounted.ledger, batch, reason=WHY),
    ):
        with pytest.raises(ForgottenError, match="does not reach back to its commit") as caught:
            act()
        assert (caught.value.fence, caught.value.entry) == (1, "delta-commit-is-gone")
        mounted.fall_silent()
    flow.abandon(mounted.ledger, batch, reason=WHY, force=True)
    assert state(mounted.ledger, batch)[0] == "abandoned"
    assert len(mounted.rows()) == N
