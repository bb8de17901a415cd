"""Fields that are not declared leave a trace: the batch names them, counts their records, and says where one of them is."""

import json

import pytest

import records
from loads.loading import COLUMNS
from servers.cli_process import Cli
from tideline.domain.requests import OneBatch
from tideline.ledger import metrics

FRAME = "def frame(rows):\n    return rows.repartition(3)\n"
FIELDS = """
    SELECT part, name, n_records, topic, partition, record_offset
    FROM tideline.attempt_field JOIN tideline.stream USING (stream_id) JOIN tideline.attempt USING (attempt_id)
    WHERE batch_id = {} ORDER BY n_records DESC, name
    """


def fields(loading, batch):
    return loading.rows(FIELDS.format(batch))


@pytest.mark.parametrize("transform", ["", FRAME], ids=["records", "frame"])
def test_a_batch_names_the_fields_that_no_column_takes(loading, transform):
    topic = records.create(loading.bootstrap, partitions=2)
    good = [{"id": number, "name": "n", "price": 1, "more": number} for number in range(10)]
    values = [json.dumps(one | ({"a\0\nb": {}} if one["id"] == 7 else {})) for one in good]
    records.produce(loading.bootstrap, topic, [*values, '{"id": "x", "more": 1}', "no JSON"], partitions=2)
    loading.declare(topic, transform=transform, fail_above=1)
    [batch] = loading.run()
    assert loading.counts()["n_rejected"] == 2
    (more, odd) = fields(loading, batch)
    assert more[:4] == ("value", "more", 11, topic)
    assert odd == ("value", "a\\x00\\nb", 1, topic, 1, 3)
    [again] = loading.run(OneBatch(batch_id=batch, replace=True), reason="again")
    assert [row[:4] for row in fields(loading, again)] == [row[:4] for row in (more, odd)]


def test_records_without_such_fields_leave_none(loading):
    topic = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, topic, map(records.record, range(10)))
    loading.declare(topic)
    [batch] = loading.run()
    assert fields(loading, batch) == []


def test_keys_and_values_are_told_apart_and_people_see_both(loading):
    topic = records.create(loading.bootstrap)
    values = ['{"id": 1, "name": "n", "price": 1, "more": 1}'] * 2
    records.produce(loading.bootstrap, topic, values, keys=[b'{"more": 1, "region": "eu"}', b"{}"])
    loading.declare(topic, key={"format": "json", "columns": {"region": "string"}}, target=REGIONS)
    [batch] = loading.run()
    assert [row[:3] for row in fields(loading, batch)] == [("value", "more", 2), ("key", "more", 1)]
    with loading.ledger() as ledger:
        assert metrics.recent_fields(ledger) == [{"pipeline": loading.pipeline.name, "n_fields": 2}]
    cli = Cli(folder=loading.folder.parent, variables={"TIDELINE_LEDGER_URL": loading.url})
    shown = cli("batch", str(batch)).stdout
    assert "Fields that are not declared" in shown
    assert f"{topic}/0 offset 0" in shown
    assert [(one["part"], one["name"], one["n_records"]) for one in cli.json("batch", str(batch))["fields"]] == [
        ("value", "more", 2),
        ("key", "more", 1),
    ]


REGIONS = """\
CREATE SCHEMA ads;
CREATE TABLE ads.output (
    region text, id bigint, name text, price numeric(12, 4),
    kafka_topic_id uuid, kafka_partition integer, kafka_offset bigint, tideline_batch bigint NOT NULL,
    PRIMARY KEY (kafka_topic_id, kafka_partition, kafka_offset)
);
"""


KEPT = """\
CREATE SCHEMA ads;
CREATE TABLE ads.output (
    id bigint, name text, price numeric(12, 4), unknown_fields jsonb,
    kafka_topic_id uuid, kafka_partition integer, kafka_offset bigint, tideline_batch bigint NOT NULL,
    PRIMARY KEY (kafka_topic_id, kafka_partition, kafka_offset)
);
"""


@pytest.mark.parametrize("transform", ["", FRAME], ids=["records", "frame"])
def test_what_no_column_takes_is_in_a_column_with_all_its_digits_also_if_it_is_loaded_again(loading, transform):
    topic = records.create(loading.bootstrap)
    plain = '{"id": 1, "name": "n", "price": 1}'
    values = [
        plain,
        plain[:-1] + ', "tip": 0.1234567890123456789, "by": {"who": "ada"}}',
        plain[:-1] + ', "a": "\\u0000"}',
    ]
    records.produce(loading.bootstrap, topic, values)
    value = {"format": "json", "columns": COLUMNS, "unknown": "keep"}
    loading.declare(topic, value=value, target=KEPT, transform=transform, fail_above=1)
    [batch] = loading.run()
    shown = "SELECT kafka_offset, unknown_fields::text FROM ads.output ORDER BY kafka_offset"
    expected = [(0, None), (1, '{"by": {"who": "ada"}, "tip": 0.1234567890123456789}')]
    assert loading.rows(shown) == expected
    assert loading.counts()["n_rejected"] == 1
    assert {row[1] for row in fields(loading, batch)} == {"tip", "by", "a"}
    loading.run(OneBatch(batch_id=batch, replace=True), reason="again")
    assert loading.rows(shown) == expected
