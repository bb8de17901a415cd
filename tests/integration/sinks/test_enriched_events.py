"""The pipeline `enriched_events` sends each impression with its offer once, and each reject to its own topic once."""

import json
from datetime import UTC, datetime
from io import BytesIO
from uuid import UUID, uuid4

import fastavro
import pytest
from psycopg2.sql import SQL
from ruamel.yaml import YAML

import records
from avro_records import framed, written
from given_topics import topics
from given_topics.output_topics import committed_records, origins
from loads.kafka_loading import TopicLoading
from servers.schema_registry import SchemaRegistry
from tideline.settings import PROJECT
from tideline_demo import avro_impressions
from tideline_demo import events as demo_events

PIPELINES = PROJECT / "include" / "pipelines"
SCHEMA = json.loads(avro_impressions.SCHEMA.text)


@pytest.fixture
def registry():
    with SchemaRegistry() as server:
        server.register("ad_impressions_avro-value", SCHEMA)
        yield server


@pytest.fixture
def names(admin, topic):
    """Create topics of the test in place of those that the pipeline names."""
    return [topic, topics.created(admin, f"{topic}_enriched", partitions=4), topics.created(admin, f"{topic}_rejects")]


@pytest.fixture
def loads(loading, tmp_path, names, registry):
    folder = tmp_path / "enriched_events"
    folder.mkdir()
    shipped = PIPELINES / "enriched_events"
    declaration = YAML(typ="safe").load((shipped / "pipeline.yaml").read_text())
    declaration["source"]["topics"], declaration["sink"]["topic"] = [names[0]], names[1]
    declaration["source"]["registry"]["urls"] = [registry.url]
    declaration["rejects"]["topic"] = names[2]
    (folder / "pipeline.yaml").write_text(json.dumps(declaration))
    for file in ("transform.py", "enriched_impression.avsc"):
        (folder / file).write_text((shipped / file).read_text())
    with loading.ledger() as ledger, ledger.transaction():
        ledger.run_sql(SQL((PIPELINES / "impressions" / "offers.sql").read_text().replace("%", "%%")), {})
    return TopicLoading(folder=folder, bootstrap=loading.bootstrap, url=loading.url, spark=loading.spark)


def impression(number, device="phone"):
    row = {
        "impression_id": str(uuid4()),
        "offer_id": number,
        "user_id": f"user {number}",
        "placement": None,
        "country": "DE",
        "device": device,
        "price_micros": 1_000_000,
        "shown_at": datetime(2026, 11, 21, 14, tzinfo=UTC),
        "user_agent": "no column",
    }
    return framed(1, written(SCHEMA, row))


def test_each_impression_is_read_once_with_its_offer_and_each_reject_in_its_topic(loads, names, registry):
    source, enriched, rejects = names
    good = [*map(impression, [1, 2, 3, 4, 999])]
    records.produce(loads.bootstrap, source, [*good, impression(6, "robot"), b"{bad", good[0][:-1]])
    loads.run()
    loads.expect(enriched, [(0, offset) for offset in range(5)])
    by_user = {one.key(): one for one in committed_records(loads.bootstrap, enriched)}
    assert dict(by_user[b"user 1"].headers())["country"] == b"DE"
    first, unknown = (_read(by_user[user].value(), registry) for user in (b"user 1", b"user 999"))
    assert isinstance(first.pop("impression_id"), UUID)
    assert first == {
        "offer_id": 1,
        "user_id": "user 1",
        "placement": None,
        "device": "phone",
        "price_micros": 1_000_000,
        "shown_at": datetime(2026, 11, 21, 14, tzinfo=UTC),
        "advertiser": "advertiser 1",
        "category": "games",
    }
    assert (unknown["advertiser"], unknown["category"]) == (None, None)
    assert sorted(origin.rsplit("/", 1)[1] for origin in origins(loads.bootstrap, rejects)) == ["6", "7"]
    assert sorted(demo_events.origins(loads.bootstrap, enriched)) == origins(loads.bootstrap, enriched)


def _read(value, registry):
    """Return a value as another library reads it, with the schema that the registry gives for its id."""
    schema = json.loads(registry.schemas[int.from_bytes(value[1:5], "big")].schema)
    return fastavro.schemaless_reader(BytesIO(value[5:]), fastavro.parse_schema(schema))


def test_the_records_of_the_tour_are_written_by_the_schema_that_they_name():
    [one] = avro_impressions.encoder(1)([avro_impressions.impressions.example()])
    found = fastavro.schemaless_reader(BytesIO(one[5:]), fastavro.parse_schema(SCHEMA))
    assert found["user_agent"].startswith("Mozilla")
