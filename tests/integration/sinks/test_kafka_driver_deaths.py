"""A driver that dies while it writes to a topic: readers of committed records see each record's rows once."""

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions

import records
from given_topics import topics
from tideline import flow
from tideline.errors import FatalError
from tideline.sinks.kafka.kafka_topic import KafkaTopic


class Died(BaseException):
    """The end of the driver at some point."""


def dies(monkeypatch, module, name, *, afterwards):
    """Let the driver die where a function is called, or right after it has done its work."""
    real = getattr(module, name)

    def call(*arguments, **options):
        if afterwards:
            real(*arguments, **options)
        monkeypatch.setattr(module, name, real)
        raise Died

    monkeypatch.setattr(module, name, call)


@pytest.mark.parametrize(
    "point",
    [
        (flow, "intend", False),
        (flow, "intend", True),
        (KafkaTopic, "commit", True),
        (flow, "settle", True),
    ],
    ids=["before the intent", "before the commit", "after the commit", "after the settlement"],
)
def test_a_driver_that_dies_on_the_way_lets_nothing_be_read_twice_or_not_at_all(loads, topic, out, monkeypatch, point):
    """The crash table of outside sinks: what is committed is settled, without a second read of the source."""
    loads.declare_topic(topic, out, key=["id"])
    loads.produce(topic, 6)
    records.produce(loads.bootstrap, topic, ["{bad"])
    batch_ids = loads.plan("dying")
    module, name, afterwards = point
    dies(monkeypatch, module, name, afterwards=afterwards)
    with pytest.raises(Died):
        loads.write("dying", batch_ids)
    is_committed = name in {"commit", "settle"}
    loads.expect(out, [(0, offset) for offset in range(6)] if is_committed else [])
    loads.write("dying", batch_ids, try_number=2)
    loads.advance("dying")
    loads.expect(out, [(0, offset) for offset in range(6)])
    assert loads.counts() == {"n_read": 7, "n_written": 6, "n_rejected": 1, "n_filtered": 0, "n_gap": 0}
    assert (loads.states(), loads.heads(), list(loads.rejects())) == (["advanced"], [7], [(0, 6)])


def test_a_batch_whose_receipt_is_forgotten_is_settled_and_not_sent_again(loads, admin, topic, out, monkeypatch):
    """A script that deletes groups without members has deleted the receipt, or the brokers have forgotten it over a weekend."""
    loads.declare_topic(topic, out)
    loads.produce(topic, 3)
    batch_ids = loads.plan("dying")
    dies(monkeypatch, KafkaTopic, "commit", afterwards=True)
    with pytest.raises(Died):
        loads.write("dying", batch_ids)
    topics.until(
        lambda: groups_of(admin, out)
    )  # the broker completes the offsets of a transaction after it has answered the commit
    for group in groups_of(admin, out):
        admin.delete_consumer_groups([group])[group].result()
    loads.write("dying", batch_ids, try_number=2)
    loads.advance("dying")
    loads.expect(out, [(0, offset) for offset in range(3)])
    assert (loads.states(), loads.heads()) == (["advanced"], [3])
    topics.until(lambda: len(groups_of(admin, out)) == 1)  # the receipt is there once more


def groups_of(admin, out):
    """Return the groups that have committed an offset of a topic."""
    found = [
        one.group_id for one in admin.list_consumer_groups().result().valid if one.group_id.startswith("tideline.")
    ]
    return [
        group
        for group in found
        for asked in [admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group]]
        if any(place.topic == out for place in asked.result().topic_partitions)
    ]


def test_a_batch_that_is_committed_cannot_be_abandoned_and_is_settled_when_kafka_has_lost_it(
    loads, admin, topic, out, monkeypatch
):
    loads.declare_topic(topic, out)
    loads.produce(topic, 3)
    batch_ids = loads.plan("dying")
    dies(monkeypatch, KafkaTopic, "commit", afterwards=True)
    with pytest.raises(Died):
        loads.write("dying", batch_ids)
    monkeypatch.setenv("TIDELINE_PIPELINES", str(loads.folder.parent))
    with loads.ledger() as ledger, pytest.raises(FatalError, match="is committed by attempt 1"):
        flow.abandon(ledger, 1, reason="no", force=True)
    topics.recreate(admin, topic)
    loads.write("dying", batch_ids, try_number=2)
    loads.expect(out, [(0, offset) for offset in range(3)])
