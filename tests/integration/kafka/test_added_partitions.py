"""A topic gains partitions: a pipeline that compares the records of a key by their offsets stops before the first key that may have moved."""

import pytest

from faults.memory import Log, MemoryBroker
from given_ledger.decisions import WHY, decided, stopped
from given_ledger.ledgers import query
from given_ledger.planners import Brokerless, declared, finish, ranges
from given_ledger.states import folded, with_state
from tideline import flow
from tideline.domain.streams import ADDED, DIVIDED_ANEW
from tideline.errors import FatalError, NeedsOperatorError
from tideline.flow.growing import depends_on_partitions
from tideline.ledger.connection import Ledger


def upsert(*, order=(), tombstones="reject"):
    """Return a declaration of an upsert."""
    found = declared("nowhere:9092", "ads")
    sink = found.sink.model_copy(update={"mode": "upsert", "key": ("id",), "order": order})
    return found.model_copy(update={"sink": sink, "source": found.source.model_copy(update={"tombstones": tombstones})})


def stateful():
    return with_state(declared("nowhere:9092", "ads"))


class Growing(Brokerless):
    """A topic of two partitions, of which everything is loaded but two records of each."""

    def __init__(self, ledger, pipeline):
        super().__init__(ledger, 5, 5)
        self.pipeline = pipeline
        self.broker = MemoryBroker(self.cluster, pipeline.source)
        self.load("first")
        self.advance("first")
        for log in self.logs:
            log.append(2)

    def load(self, name):
        """Plan a run, and publish its batches."""
        for batch_id in self.plan(name):
            if self.pipeline.state is None:
                finish(self.ledger, [batch_id])
            else:
                folded(self.ledger, batch_id)

    def grow(self, *ends):
        """Add partitions."""
        self.logs.extend(Log(end) for end in ends)

    def refused(self, name):
        """Plan a run that has nothing else to do; return what it says."""
        with pytest.raises(NeedsOperatorError) as caught:
            self.plan(name)
        return str(caught.value)


@pytest.mark.parametrize("pipeline", [upsert(), upsert(order=("price",), tombstones="delete"), stateful()])
def test_nothing_of_an_added_partition_is_loaded_before_a_person_has_decided(ledger, pipeline):
    scene = Growing(ledger, pipeline)
    scene.grow(3, 4)
    # What is in the partitions that were there before is from keys that have not moved, or from before they did.
    scene.load("second")
    assert ranges(ledger) == {("ads", one): [(0, 5), (5, 7)] for one in (0, 1)}
    assert stopped(ledger) == [("ads", 2, ADDED), ("ads", 3, ADDED)]
    with pytest.raises(
        NeedsOperatorError, match=r"ads/2 at offset 0: partitions were added(.*\n)*.*accept-partitions races ads"
    ):
        scene.advance("second")
    said = scene.refused("third")
    assert "tideline accept-partitions races ads --reason ..." in said
    assert "adopt-topic" not in said
    assert "accept-loss" not in said


def test_a_person_decides_that_no_key_has_moved(ledger, ledger_url):
    scene = Growing(ledger, upsert())
    scene.grow(3, 4)
    with Ledger(ledger_url, actor="ada") as ada:

        def accept(**more):
            return flow.accept_partitions(ada, scene.broker, scene.pipeline, "ads", reason=WHY, **more)

        # No plan has seen the partitions yet. A dry run changes nothing.
        lines = ["ads/2: goes on at 0", "ads/3: goes on at 0"]
        assert accept(dry_run=True) == lines
        assert query(ledger, "SELECT count(*)::int FROM tideline.stream") == [(2,)]
        scene.load("second")
        assert accept() == lines
        with pytest.raises(FatalError, match="no partition of ads waits for a decision"):
            accept()
    assert [row for row in decided(ledger) if row[0] == "resume"] == [
        ("resume", "ads/2", WHY),
        ("resume", "ads/3", WHY),
    ]
    scene.load("third")
    assert ranges(ledger)["ads", 3] == [(0, 4)]
    # The next growth is asked about again.
    scene.grow(1, 1, 1, 1)
    assert "ads/7 at offset 0" in scene.refused("fourth")


def test_where_keys_are_divided_anew_the_partitions_before_stop_too(ledger):
    """Three in place of two: a key may move from the first partition to the second. Its records there are newer, and could be loaded before."""
    scene = Growing(ledger, stateful())
    open_ones = scene.plan("before")
    scene.grow(3)
    assert "ads/1 at offset 5: partitions were added" in scene.refused("second")
    assert stopped(ledger) == [("ads", 0, DIVIDED_ANEW), ("ads", 1, DIVIDED_ANEW), ("ads", 2, ADDED)]
    assert query(ledger, "SELECT state::text FROM tideline.batch WHERE batch_id = ANY (%s)", open_ones) == [
        ("abandoned",)
    ]
    flow.accept_partitions(ledger, scene.broker, scene.pipeline, "ads", reason=WHY)
    scene.plan("third")
    assert ranges(ledger)["ads", 0][-1] == (5, 7)
    assert ranges(ledger)["ads", 2] == [(0, 3)]


def test_a_loss_is_accepted_by_another_decision(ledger):
    scene = Growing(ledger, upsert())
    scene.grow(3, 4)
    scene.plan("second")
    with pytest.raises(FatalError, match="no stream of ads is stopped because of a loss"):
        flow.accept_loss(ledger, scene.broker, scene.pipeline, "ads", None, reason=WHY)
    assert len(stopped(ledger)) == 2


@pytest.mark.parametrize("pipeline", [declared("nowhere:9092", "ads"), upsert(order=("price",))])
def test_a_pipeline_that_compares_no_offsets_of_keys_loads_added_partitions_at_once(ledger, pipeline):
    assert not depends_on_partitions(pipeline)
    scene = Growing(ledger, pipeline)
    scene.grow(3)
    scene.load("second")
    assert ranges(ledger)["ads", 2] == [(0, 3)]


def test_a_declared_order_resumes_the_partitions(ledger):
    scene = Growing(ledger, upsert())
    scene.grow(3, 4)
    scene.load("second")
    scene.pipeline = upsert(order=("price",))
    scene.load("third")
    assert stopped(ledger) == []
    assert ranges(ledger)["ads", 3] == [(0, 4)]


def test_a_topic_that_is_taken_out_of_the_declaration_is_asked_about_again_when_it_is_back(ledger):
    scene = Growing(ledger, upsert())
    scene.grow(3, 4)
    scene.load("second")
    with_ads = scene.pipeline
    other = scene.cluster.create("other", 2)
    without = with_ads.source.model_copy(update={"topics": ("other",)})
    scene.pipeline = with_ads.model_copy(update={"source": without})
    scene.broker = MemoryBroker(scene.cluster, without)
    scene.load("without")
    assert (stopped(ledger), ranges(ledger)["other", 0]) == ([], [(0, other.logs[0].end)])
    scene.pipeline, scene.broker = with_ads, MemoryBroker(scene.cluster, with_ads.source)
    assert "the topic that was retired is back" in scene.refused("with it again")
    assert ("ads", 2) not in ranges(ledger)
