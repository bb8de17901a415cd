"""Which rows of a target table a replay deletes before it inserts its own."""

from uuid import UUID

from given_ledger.ledgers import TOPIC_ID, execute, plan, published, query, start_streams
from tideline.domain.states import BatchKind
from tideline.ledger.reservations import Run
from tideline.sinks.postgres.target_table import sink_sql

TARGET = "CREATE SCHEMA ads; CREATE TABLE ads.output (kafka_topic_id uuid, kafka_partition integer, kafka_offset bigint, tideline_batch bigint)"
EARLIER = UUID(int=8)
OF_ANOTHER_PIPELINE = 99


def test_a_replay_deletes_the_rows_of_its_offsets_its_topic_and_its_batches_only(ledger):
    """An earlier topic of the name had the same offsets, and another pipeline may write its records into the same table."""
    (stream,) = start_streams(ledger, 1)
    owner = published(ledger, {stream: (0, 10)})
    replay = plan(ledger, {stream: (2, 5)}, run=Run(dag_id="replay", run_id="again"), kind=BatchKind.REPLAY)
    execute(ledger, TARGET)
    kept = [
        (topic, 0, offset, batch)
        for topic, batch in (
            (TOPIC_ID, owner),
            (EARLIER, owner),
            (EARLIER, OF_ANOTHER_PIPELINE),
            (TOPIC_ID, OF_ANOTHER_PIPELINE),
        )
        for offset in range(10)
    ]
    for row in kept:
        execute(ledger, "INSERT INTO ads.output VALUES (%s, %s, %s, %s)", *row)
    delete = sink_sql("delete_replaced").string.replace("{target}", "ads.output").replace("%(batch_id)s", str(replay))
    execute(ledger, delete)
    gone = [(TOPIC_ID, 0, offset, owner) for offset in (2, 3, 4)]
    left = query(ledger, "SELECT kafka_topic_id::uuid, kafka_partition, kafka_offset, tideline_batch FROM ads.output")
    assert sorted(left, key=str) == sorted((row for row in kept if row not in gone), key=str)
