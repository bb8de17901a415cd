"""Where a new stream begins, and which topics a pipeline's pattern selects."""

from uuid import uuid4

import pytest

from given_ledger.planners import NAME, declared, load, plan, ranges, run
from given_topics.topics import created, exists, grown, produce, recreate, until
from tideline import flow
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import NamedRange, NewRecords
from tideline.errors import FatalError, NeedsOperatorError
from tideline.kafka.broker import Broker
from tideline.ledger import reservations, rewinds
from tideline.ledger.connection import Ledger


@pytest.fixture
def prefix():
    return f"ads_{uuid4().hex[:8]}"


def following(broker, prefix, *, start="latest"):
    return declared(broker.bootstrap, start=start, source={"topic_pattern": f"^{prefix}_.*$"})


def test_a_topic_that_matches_later_begins_at_its_first_offset(broker, admin, ledger, ledger_url, prefix):
    pipeline = following(broker, prefix)
    first = created(admin, f"{prefix}_first")
    produce(broker, first, 5)
    assert plan(ledger_url, pipeline, "begin") == []
    later = created(admin, f"{prefix}_later", partitions=2)
    produce(broker, later, 3, partition=1)
    produce(broker, first, 1)
    load(ledger, plan(ledger_url, pipeline, "first"))
    assert ranges(ledger) == {(first, 0): [(5, 6)], (later, 1): [(0, 3)]}


def test_the_first_topic_that_ever_fits_begins_at_its_first_offset_as_well(broker, admin, ledger, ledger_url, prefix):
    """The pipeline existed before the topic, so the topic's records are not older than the pipeline."""
    pipeline = following(broker, prefix)
    assert plan(ledger_url, pipeline, "nothing fits") == []
    topic = created(admin, f"{prefix}_first")
    produce(broker, topic, 5)
    plan(ledger_url, pipeline, "first")
    assert ranges(ledger) == {(topic, 0): [(0, 5)]}


def look(ledger, pipeline):
    flow.dry_run(ledger, Broker(pipeline.source), pipeline, NewRecords())


def advance(ledger, pipeline):
    flow.advance(ledger, pipeline.name, run("nothing yet"))


def prune(ledger, pipeline):
    rewinds.prune(ledger, pipeline.name, 1)


@pytest.mark.parametrize("done", [look, advance, prune])
def test_only_a_plan_can_be_older_than_a_topic(broker, admin, ledger_url, prefix, done):
    """A dry run, an advance and upkeep may come before the first plan. The topic was there before it, so it begins at its end."""
    pipeline = following(broker, prefix)
    with Ledger(ledger_url, actor="before") as ledger:
        done(ledger, pipeline)
    topic = created(admin, f"{prefix}_first")
    produce(broker, topic, 5)
    assert plan(ledger_url, pipeline, "first") == []


def test_a_decision_that_is_only_tried_leaves_no_pipeline(broker, admin, ledger, prefix):
    topic = created(admin, f"{prefix}_first")
    produce(broker, topic, 5)
    pipeline = declared(broker.bootstrap, topic)
    piece = NamedRange(topic, 0, OffsetRange(0, 2))
    flow.skip(ledger, Broker(pipeline.source), pipeline, piece, reason="looks", dry_run=True)
    with ledger.transaction():
        assert not reservations.is_known(ledger, NAME)


def test_a_declared_topic_begins_where_the_declaration_says_though_others_are_known(
    broker, admin, ledger, ledger_url, prefix
):
    one, other = (created(admin, f"{prefix}_{name}") for name in ("one", "other"))
    produce(broker, other, 5)
    plan(ledger_url, declared(broker.bootstrap, one, start="latest"), "begin")
    assert plan(ledger_url, declared(broker.bootstrap, one, other, start="latest"), "both") == []
    produce(broker, other, 1)
    plan(ledger_url, declared(broker.bootstrap, one, other, start="latest"), "more")
    assert ranges(ledger) == {(other, 0): [(5, 6)]}


def test_a_topic_that_fitted_and_is_gone_stops_its_streams_only(broker, admin, ledger, ledger_url, prefix):
    pipeline = following(broker, prefix, start="earliest")
    gone, stays = (created(admin, f"{prefix}_{name}") for name in ("gone", "stays"))
    plan(ledger_url, pipeline, "begin")
    admin.delete_topics([gone])[gone].result()
    until(lambda: not exists(admin, gone))
    produce(broker, stays, 2)
    load(ledger, plan(ledger_url, pipeline, "first"))
    assert ranges(ledger) == {(stays, 0): [(0, 2)]}
    with pytest.raises(NeedsOperatorError, match=f"{gone}/0 at offset 0: the topic is gone"):
        plan(ledger_url, pipeline, "second")


def test_a_topic_of_a_pattern_that_was_created_again_does_not_pass_for_a_new_one(
    broker, admin, ledger, ledger_url, prefix
):
    pipeline = following(broker, prefix, start="earliest")
    topic = created(admin, f"{prefix}_first")
    plan(ledger_url, pipeline, "begin")
    recreate(admin, topic)
    produce(broker, topic, 5)
    with pytest.raises(NeedsOperatorError, match="created again"):
        plan(ledger_url, pipeline, "first")
    assert ranges(ledger) == {}


def test_a_partition_that_is_added_begins_at_its_first_offset_and_blocks_no_other(
    broker, admin, ledger, ledger_url, prefix
):
    topic = created(admin, f"{prefix}_first")
    pipeline = declared(broker.bootstrap, topic, start="latest")
    plan(ledger_url, pipeline, "begin")
    produce(broker, topic, 4)
    before = plan(ledger_url, pipeline, "first")
    grown(admin, topic, 3)
    produce(broker, topic, 2, partition=2)
    given = plan(ledger_url, pipeline, "second")
    assert given[: len(before)] == before
    load(ledger, given)
    assert ranges(ledger) == {(topic, 0): [(0, 4)], (topic, 2): [(0, 2)]}


def test_a_topic_that_was_never_there_is_a_mistake_and_keeps_nothing(broker, admin, ledger, ledger_url, prefix):
    there = created(admin, f"{prefix}_there")
    produce(broker, there, 3)
    with pytest.raises(FatalError, match=f"{prefix}_never"):
        plan(ledger_url, declared(broker.bootstrap, there, f"{prefix}_never"), "first")
    assert ranges(ledger) == {}
    with ledger.transaction():
        assert ledger.rows("list_heads", pipeline=NAME) == []
