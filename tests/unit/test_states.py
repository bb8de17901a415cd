"""Properties of a batch's state machine, checked on its table of transitions."""

from tideline.domain.states import TRANSITIONS, BatchState


def after(*states):
    """Return all states that are reachable from these."""
    found = set()
    while new := {b for a, b in TRANSITIONS if a in {*states, *found}} - found:
        found |= new
    return found


def test_every_state_can_be_reached():
    assert {BatchState.PLANNED, *after(BatchState.PLANNED)} == set(BatchState)


def test_nothing_becomes_planned_again():
    assert BatchState.PLANNED not in after(*BatchState)


def test_what_is_published_is_never_written_or_given_up():
    """A published batch is visible: only a replay can replace its rows."""
    assert after(BatchState.PUBLISHED) == {BatchState.ADVANCED, BatchState.SUPERSEDED}


def test_only_an_attempt_publishes():
    assert {a for a, b in TRANSITIONS if b is BatchState.PUBLISHED} == {BatchState.WRITING}


def test_only_what_is_published_advances():
    assert {a for a, b in TRANSITIONS if b is BatchState.ADVANCED} == {BatchState.PUBLISHED}


def test_a_batch_under_an_attempt_cannot_be_abandoned():
    """The attempt could publish at any moment: first it must fail or be taken over."""
    assert {a for a, b in TRANSITIONS if b is BatchState.ABANDONED} == {BatchState.PLANNED, BatchState.FAILED}


def test_the_ends_are_final():
    assert after(BatchState.ABANDONED) == after(BatchState.SUPERSEDED) == set()
