"""Bad records in Avro, Protobuf and Debezium's changes: each affects only itself, no job fails, and the counts are exact."""

from random import Random

import pytest
from confluent_kafka import Producer

import records
from faults.bad_input.framed_records import FORMATS
from faults.bad_input.sending import PRODUCER
from servers.schema_registry import SchemaRegistry
from tideline.domain.requests import OneBatch

PARTITIONS = 2
GOOD = 300
TARGET = """\
CREATE SCHEMA IF NOT EXISTS ads;
CREATE TABLE ads.output (
    id bigint, name text, share double precision, kind text, at timestamptz, tags text[], {more}
    kafka_topic_id uuid, kafka_partition integer, kafka_offset bigint, tideline_batch bigint NOT NULL,
    PRIMARY KEY (kafka_topic_id, kafka_partition, kafka_offset)
);
"""
MORE = {"avro": "day date, price numeric(10, 2), any_ jsonb,"}
RENAMED = "def records(batch):\n    return batch.rename_columns([{'any': 'any_'}.get(name, name) for name in batch.column_names])\n"


@pytest.fixture
def registry():
    with SchemaRegistry() as server:
        yield server


@pytest.mark.parametrize("name", FORMATS)
def test_a_bad_record_of_any_kind_costs_itself_only_in_every_format(loading, registry, first_seed, name):
    chosen, rng = FORMATS[name], Random(first_seed)
    for kind, schema in chosen.schemas:
        registry.register("rows-value", schema, kind=kind)
    topic = records.create(loading.bootstrap, partitions=PARTITIONS, **{"max.message.bytes": "20000000"})
    given = [("good", None), *((bad, None) for bad in chosen.bad), *(("good", None) for _ in range(GOOD))]
    rng.shuffle(given)
    drawn = [(kind, *(chosen.good(rng) if kind == "good" else (chosen.bad[kind][0](rng), None))) for kind, _ in given]
    producer = Producer({"bootstrap.servers": loading.bootstrap, **PRODUCER})
    for position, (_, value, _) in enumerate(drawn):
        producer.produce(topic, value, partition=position % PARTITIONS)
    assert producer.flush(120) == 0
    framed = {"registry": {"urls": [registry.url]}} if chosen.schemas else {}
    target = TARGET.format(more=MORE.get(name, ""))
    loading.declare(topic, value=chosen.value, target=target, transform=RENAMED, fail_above=1, **framed)
    [batch] = loading.run()
    assert found(loading, drawn, chosen) == []
    loading.run(OneBatch(batch_id=batch, replace=True), reason="to see that nothing changes")
    assert found(loading, drawn, chosen) == []


def found(loading, drawn, chosen):
    """Return each record that is not where it should be, with what is there."""
    rows = {
        (row[0], row[1]): row[2] for row in loading.rows("SELECT kafka_partition, kafka_offset, id FROM ads.output")
    }
    rejects = {place: reason for place, (_, reason, _) in loading.rejects().items()}
    wrong = []
    for position, (kind, _, number) in enumerate(drawn):
        place = (position % PARTITIONS, position // PARTITIONS)
        reason = rejects.get(place)
        if kind == "good":
            if rows.get(place) != number or reason is not None:
                wrong.append((kind, place, rows.get(place), reason))
        elif place in rows or not any(words in (reason or "") for words in chosen.bad[kind][1]):
            wrong.append((kind, place, rows.get(place), reason))
    return wrong
