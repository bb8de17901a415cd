"""`tideline doctor` compares the receipts of outside sinks with the ledger."""

from uuid import UUID, uuid4

from given_ledger.planners import NAME
from loads.outside_log import Scene
from tideline.domain.receipts import BatchIdentity, Receipt
from tideline.ledger import invariants
from tideline.reports.checks.outside import MOST, receipts


def doctors(scene: Scene) -> list[tuple[str, str]]:
    """Return verdict and text of each check of the receipts."""
    with scene.ledger.transaction():
        batches = invariants.outside_batches(scene.ledger, NAME, most=MOST)
    return [(str(check.verdict), check.found) for check in receipts(scene.ledger, scene.ads.pipeline, batches)]


def test_doctor_finds_each_batch_as_its_receipt_says(scene):
    scene.load(scene.plan())
    [(verdict, _)] = doctors(scene)
    assert verdict == "ok"


def test_doctor_finds_a_published_batch_without_a_receipt_unless_the_sink_may_have_forgotten_it(scene):
    batch = scene.plan()
    scene.load(batch)
    scene.log.versions.clear()
    [(verdict, text)] = doctors(scene)
    assert (verdict, f"batch {batch}: no receipt" in text) == ("bad", True)
    scene.log.remembers_days = 0.0
    assert [verdict for verdict, _ in doctors(scene)] == ["ok"]


def test_doctor_finds_the_receipt_of_an_attempt_that_the_ledger_does_not_know(scene):
    batch = scene.plan()
    scene.load(batch)
    scene.log.attempts[scene.known(batch).identity] = UUID(int=9)
    [(verdict, text)] = doctors(scene)
    assert (verdict, f"batch {batch} ({scene.known(batch).identity}) by attempt 1" in text) == ("bad", True)


def test_doctor_finds_a_committed_batch_that_the_ledger_does_not_know_whatever_its_number(scene):
    batch = scene.plan()
    scene.load(batch)
    fenced, committed = BatchIdentity(uuid4(), batch), BatchIdentity(uuid4(), batch)
    scene.log.fence(fenced, 2)
    scene.log.commit(committed, Receipt(fence=3, attempt=uuid4()), [])
    [(verdict, text)] = doctors(scene)
    assert (verdict, f"{committed.identity} by attempt 3" in text) == ("bad", True)
    assert str(fenced.identity) not in text
