"""Records in Avro are loaded as all others are: each once, and one that is none is a reject with its bytes."""

import json
from decimal import Decimal

import pytest

import records
from avro_records import written
from loads.loading import COLUMNS
from tideline.domain.requests import OneBatch
from tideline.errors import FatalError

SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": "string"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 4}},
    ],
}
KEY = {"type": "record", "name": "Key", "fields": [{"name": "region", "type": "string"}]}
VALUE = {"format": "avro", "schema_file": "order.avsc", "columns": COLUMNS}
REGIONS = """\
CREATE SCHEMA ads;
CREATE TABLE ads.output (
    region text, id bigint, name text, price numeric(12, 4),
    kafka_topic_id uuid, kafka_partition integer, kafka_offset bigint, tideline_batch bigint NOT NULL,
    PRIMARY KEY (kafka_topic_id, kafka_partition, kafka_offset)
);
"""


def order(number):
    name = None if number % 3 == 0 else f"order {number}"
    return written(SCHEMA, {"id": number, "note": "not declared", "name": name, "price": Decimal(number).scaleb(-2)})


@pytest.fixture
def avro(loading):
    """Return a pipeline of Avro records, with its schema file."""
    topic = records.create(loading.bootstrap, partitions=2)
    loading.declare(topic, value=VALUE, fail_above=1)
    (loading.folder / "order.avsc").write_text(json.dumps(SCHEMA))
    return loading, topic


def test_good_records_are_rows_and_others_are_rejects_with_their_bytes_also_if_they_are_loaded_again(avro):
    loading, topic = avro
    bad = [b"", order(7)[:-1], order(8) + b"\0", b"\xff" * 30, b'{"id": 1}', None]
    values = [*map(order, range(40)), *bad]
    sent = records.produce(loading.bootstrap, topic, values, partitions=2)
    [batch] = loading.run()
    numbers = {order(number): number for number in range(40)}
    expected = {
        place: (numbers[value], None if numbers[value] % 3 == 0 else f"order {numbers[value]}", Decimal(numbers[value]).scaleb(-2))
        for place, value in sent.items()
        if value in numbers
    }  # fmt: skip
    for _ in range(2):
        assert loading.output() == expected
        rejected = loading.rejects()
        assert {place: value for place, (_, _, value) in rejected.items()} == {
            place: value for place, value in sent.items() if value not in numbers
        }
        assert {step for step, _, _ in rejected.values()} == {"decode"}
        loading.run(OneBatch(batch_id=batch, replace=True), reason="again")


def test_keys_are_decoded_by_a_schema_of_their_own(loading):
    topic = records.create(loading.bootstrap)
    key = {"format": "avro", "schema_file": "key.avsc", "columns": {"region": "string"}}
    loading.declare(topic, target=REGIONS, value=VALUE, key=key)
    (loading.folder / "order.avsc").write_text(json.dumps(SCHEMA))
    (loading.folder / "key.avsc").write_text(json.dumps(KEY))
    keys = [written(KEY, {"region": "north"}), written(KEY, {"region": "south"})]
    records.produce(loading.bootstrap, topic, [order(1), order(2)], keys=keys)
    loading.run()
    assert loading.rows("SELECT region, id FROM ads.output ORDER BY id") == [("north", 1), ("south", 2)]


def test_a_schema_file_that_fits_no_column_stops_the_load_before_anything_is_read(avro):
    loading, topic = avro
    records.produce(loading.bootstrap, topic, [order(1)], partitions=2)
    batches = loading.plan("first")
    other = json.dumps(KEY | {"fields": [{"name": "id", "type": "string"}]})
    for text, found in (("{}", "expected a type"), (other, "id: expected bigint")):
        (loading.folder / "order.avsc").write_text(text)
        with pytest.raises(FatalError, match=f"order.avsc: .*{found}"):
            loading.write("first", batches)
    (loading.folder / "order.avsc").unlink()
    with pytest.raises(FatalError, match=r"order.avsc: .*expected an Avro schema.*found No such file"):
        loading.write("first", batches)
    assert loading.states() == ["failed"]
    (loading.folder / "order.avsc").write_text(json.dumps(SCHEMA))
    loading.write("first", batches, try_number=2)
    assert len(loading.output()) == 1
