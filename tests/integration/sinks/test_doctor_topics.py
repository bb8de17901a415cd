"""`tideline doctor` finds published batches whose records were deleted from a topic, unless its own retention may have deleted them."""

import pytest
from confluent_kafka import TopicPartition

from given_topics import topics
from tideline.domain.checks import Check, Verdict
from tideline.domain.requests import OneBatch
from tideline.ledger import published_rows
from tideline.ledger.sessions import moment
from tideline.reports.checks import rows


@pytest.fixture
def two_batches(loads, admin, topic):
    """Load two batches of four records into a topic of one partition, and return its name."""
    out = topics.created(admin, f"{topic}_one")
    loads.declare_topic(topic, out, replay="append", limits={"batch_records": 4})
    loads.produce(topic, 8)
    assert loads.run() == [1, 2]
    return out


def of_topic(loads, *, most: int | None = rows.NEWEST) -> Check:
    with loads.ledger() as ledger:
        with moment(ledger):
            batches = published_rows.sent(ledger, "loads", loads.pipeline.sink.output, most=most)
        (check,) = rows.of_batches(loads.pipeline, batches)
    return check


def cut(admin, out, offset):
    admin.delete_records([TopicPartition(out, 0, offset)])[TopicPartition(out, 0)].result()


def test_batches_whose_records_a_program_has_deleted_from_a_topic_are_named_and_can_be_sent_again(
    loads, admin, two_batches
):
    assert of_topic(loads).verdict is Verdict.OK
    cut(admin, two_batches, 2)
    check = of_topic(loads)
    assert check.verdict is Verdict.BAD
    assert f"batch 1 (4 records): {two_batches}/0 begins at 2 now, they were sent to 0 and behind it" in check.found
    assert "batch 2 " not in check.found
    assert "tideline replay loads --batch 1 " in str(check.next_step)
    assert of_topic(loads, most=1).verdict is Verdict.OK, "only the newest is looked at"
    loads.run(OneBatch(batch_id=1, replace=True), reason="truncated")
    assert of_topic(loads).verdict is Verdict.OK


def test_all_batches_are_named_after_a_topic_was_truncated_as_a_whole(loads, admin, two_batches):
    cut(admin, two_batches, 10)  # four records and a marker of each transaction
    assert "batch 1 " in of_topic(loads).found
    assert "batch 2 " in of_topic(loads).found


def test_batches_are_compared_in_the_order_of_their_commits_not_of_their_numbers(loads, admin, topic):
    out = topics.created(admin, f"{topic}_late")
    loads.declare_topic(topic, out, limits={"batch_records": 4})
    loads.produce(topic, 8)
    assert loads.plan("late") == [1, 2]
    for batch_id in (2, 1):
        loads.write("late", [batch_id])
    cut(admin, out, 7)  # four records of batch 2, a marker, and two records of batch 1
    assert f"batch 1 (4 records): {out}/0 begins at 7 now, they were sent to 5 and behind it" in of_topic(loads).found
    assert "batch 2 " in of_topic(loads).found
    assert "batch 1 " in of_topic(loads, most=1).found, "the one that was committed last"


def test_nothing_is_said_of_a_topic_that_several_pipelines_write(loads, admin, topic):
    out = topics.created(admin, f"{topic}_shared")
    loads.declare_topic(topic, out, shared=True)
    loads.produce(topic, 4)
    loads.run()
    cut(admin, out, 2)
    with loads.ledger() as ledger, moment(ledger):
        batches = published_rows.sent(ledger, "loads", loads.pipeline.sink.output, most=None)
    assert len(batches) == 1
    assert list(rows.of_batches(loads.pipeline, batches)) == []


def test_a_batch_that_has_sent_nothing_to_a_partition_is_not_named_for_what_others_have_lost_there(
    loads, admin, broker, topic
):
    out = topics.created(admin, f"{topic}_two", partitions=2)
    loads.declare_topic(topic, out, key=["id"])
    for _ in range(2):
        loads.produce(topic, 1)
        loads.run()
    with loads.ledger() as ledger, moment(ledger):
        newest, _ = published_rows.sent(ledger, "loads", loads.pipeline.sink.output, most=None)
    (other,) = [int(number) for number, end in newest.position["ends"].items() if end == 0]
    topics.produce(broker, out, 3, other)
    place = TopicPartition(out, other, 3)
    admin.delete_records([place])[place].result()
    assert "batch 1 " not in of_topic(loads).found


def test_batches_of_a_topic_that_was_created_again_are_named(loads, admin, two_batches):
    topics.recreate(admin, two_batches)
    assert of_topic(loads).found.count(f"{two_batches} was created again since") == 2


@pytest.mark.parametrize("setting", [{"retention.ms": "1"}, {"retention.bytes": "1000000"}])
def test_what_the_retention_of_the_topic_may_have_deleted_is_no_loss(loads, admin, topic, setting):
    out = topics.created(admin, f"{topic}_short", **setting)
    loads.declare_topic(topic, out)
    loads.produce(topic, 4)
    loads.run()
    cut(admin, out, 2)
    assert of_topic(loads).verdict is Verdict.OK
