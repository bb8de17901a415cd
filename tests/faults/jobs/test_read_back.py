"""What readers of an output see is copied as it is: nothing twice becomes once, and nothing aborted appears."""

from contextlib import closing
from decimal import Decimal
from uuid import UUID

import psycopg2
import pyarrow as pa
import pytest
from confluent_kafka import Producer
from deltalake import write_deltalake

from faults.jobs import read_back
from faults.jobs.order_outputs import Output, Sink

PLACE = str(UUID(int=7))


@pytest.fixture
def copied(crashing):
    """Return a function that copies an output, and returns its rows."""

    def rows(output):
        read_back.copy(output, crashing.url, crashing.bootstrap)
        with closing(psycopg2.connect(crashing.url)) as connection, connection.cursor() as cursor:
            cursor.execute(
                f"SELECT kafka_offset, id, name, price, item, note, tideline_batch FROM {output.table} ORDER BY 1"
            )
            return cursor.fetchall()

    return rows


def test_a_record_that_is_in_a_topic_twice_is_in_the_copy_twice_and_an_aborted_one_is_not(crashing, copied, tmp_path):
    output = Output(pipeline="copied_topic", sink=Sink.TOPIC, lakes=tmp_path)
    read_back.create_topics(output, crashing.bootstrap)
    producer = Producer({"bootstrap.servers": crashing.bootstrap, "transactional.id": output.topic})
    producer.init_transactions(60)
    for offsets, end in (((1, 2), producer.commit_transaction), ((3,), producer.abort_transaction)):
        producer.begin_transaction()
        for offset in (*offsets, offsets[0]):
            headers = {"tideline-origin": f"{PLACE}/0/{offset}/0".encode(), "name": b"one"}
            producer.produce(output.topic, b'{"price":1.5000,"note":"","item":0}', key=b"5", headers=headers)
        end(60)
    row = (5, "one", Decimal("1.5000"), 0, "", 0)  # batch 0, since nothing in the ledger owns the offset
    assert copied(output) == [(1, *row), (1, *row), (2, *row)]


def test_a_row_that_is_in_a_delta_table_twice_is_in_the_copy_twice(copied, tmp_path):
    output = Output(pipeline="copied_lake", sink=Sink.LAKE, lakes=tmp_path)
    place = {"kafka_topic_id": PLACE, "kafka_partition": 0, "kafka_offset": 1, "tideline_batch": 9}
    order = {"id": 5, "name": "one", "price": Decimal("1.5000"), "item": 0, "note": ""}
    write_deltalake(output.lake, pa.Table.from_pylist([order | place] * 2))
    assert copied(output) == [(1, *order.values(), 9)] * 2
