"""A pipeline that wants the latest records: what it leaves out is recorded, and nothing that is gone stops it."""

from confluent_kafka import TopicPartition

from asking import query
from planners import declared, plan, ranges
from topics import produce


def latest(broker, topic, **limits):
    pipeline = declared(broker.bootstrap, topic, **limits)
    return pipeline.model_copy(update={"source": pipeline.source.model_copy(update={"delivery": "latest_wins"})})


def holes(ledger):
    return query(
        ledger,
        "SELECT lower(offsets), upper(offsets), hole::text, reason, decided_by FROM tideline.coverage WHERE hole IS NOT NULL ORDER BY 1",
    )


def test_what_retention_deleted_unread_is_lost_in_the_policys_name_and_the_stream_goes_on(
    broker, admin, topic, ledger, ledger_url
):
    pipeline = latest(broker, topic, batch_records=2, run_batches=1)
    produce(broker, topic, 1)
    plan(ledger_url, pipeline, "first")
    produce(broker, topic, 9)
    admin.delete_records([TopicPartition(topic, 0, 5)])[TopicPartition(topic, 0)].result()
    plan(ledger_url, pipeline, "second")
    assert query(ledger, "SELECT state::text FROM tideline.stream") == [("active",)]
    assert holes(ledger) == [
        (0, 5, "lost", "latest wins", "policy latest_wins"),  # with what the first run had planned
        (5, 8, "skipped", "latest wins", "policy latest_wins"),
    ]
    assert ranges(ledger)[topic, 0] == [(0, 1), (8, 10)]
