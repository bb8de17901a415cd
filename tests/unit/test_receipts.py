"""The laws of versions: one number for each batch, changed by compare-and-set alone, commits a batch at most once."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideline.declaration.pipelines import load_named
from tideline.domain.receipts import Found, Receipt, committed_by, data, found, marker, needs_marker
from tideline.sinks import kinds

FENCES = st.integers(1, 50)


def receipt(fence: int) -> Receipt:
    return Receipt(fence=fence, attempt=UUID(int=fence))


@given(FENCES)
def test_a_marker_is_no_receipt_and_data_is_one(fence):
    assert committed_by(marker(fence)) is None
    assert committed_by(data(fence)) == fence
    assert committed_by(None) is None


@given(FENCES)
def test_an_attempt_commits_after_its_own_marker_and_not_after_the_next(fence):
    assert found(None, None, own=receipt(fence)) is Found.FREE
    assert found(marker(fence), None, own=receipt(fence)) is Found.FREE
    assert found(marker(fence + 1), None, own=receipt(fence)) is Found.SUPERSEDED


@given(FENCES, FENCES)
def test_data_is_the_own_commit_or_another_one(fence, other):
    expected = Found.OWN if fence == other else Found.SUPERSEDED
    assert found(data(other), receipt(other), own=receipt(fence)) is expected


def test_data_with_a_strange_attempt_is_not_the_own_commit():
    """The batch of another ledger with the same number, or of this one before it was restored."""
    strange = Receipt(fence=1, attempt=UUID(int=99))
    assert found(data(1), strange, own=receipt(1)) is Found.SUPERSEDED
    assert found(data(1), None, own=receipt(1)) is Found.SUPERSEDED


def test_there_is_no_fence_below_one():
    with pytest.raises(ValueError, match="begin at 1"):
        marker(0)


@given(st.lists(st.tuples(st.sampled_from(["fence", "commit"]), FENCES), max_size=40))
def test_the_version_only_rises_and_the_first_data_stays(steps):
    version, log = None, []
    for step, fence in steps:
        if step == "fence" and needs_marker(version, fence):
            assert marker(fence) > (version or 0)
            version = marker(fence)
        elif step == "commit":
            stored = receipt(committed_by(version)) if committed_by(version) else None
            if found(version, stored, own=receipt(fence)) is Found.FREE:
                assert all(fence >= other for kind, other in log if kind == "fence"), "a fenced attempt committed"
                assert data(fence) > (version or 0)
                version = data(fence)
                log.append(("data", fence))
        log.append((step, fence))
    assert sum(kind == "data" for kind, _ in log) <= 1


def test_a_table_in_the_ledgers_database_is_no_outside_sink():
    assert not kinds.of(load_named("impressions")).is_outside
