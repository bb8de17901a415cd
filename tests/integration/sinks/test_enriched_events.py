"""The pipeline `enriched_events` sends each impression with its offer once, and each reject to its own topic once."""

import json
from uuid import uuid4

import pytest
from psycopg2.sql import SQL
from ruamel.yaml import YAML

import records
from given_topics import topics
from given_topics.output_topics import committed_records, origins
from loads.kafka_loading import TopicLoading
from tideline.settings import PROJECT
from tideline_demo import events as demo_events

PIPELINES = PROJECT / "include" / "pipelines"


@pytest.fixture
def names(admin, topic):
    """Create topics of the test in place of those that the pipeline names."""
    return [topic, topics.created(admin, f"{topic}_enriched", partitions=4), topics.created(admin, f"{topic}_rejects")]


@pytest.fixture
def loads(loading, tmp_path, names):
    folder = tmp_path / "enriched_events"
    folder.mkdir()
    declaration = YAML(typ="safe").load((PIPELINES / "enriched_events" / "pipeline.yaml").read_text())
    declaration["source"]["topics"], declaration["sink"]["topic"] = [names[0]], names[1]
    declaration["rejects"]["topic"] = names[2]
    (folder / "pipeline.yaml").write_text(json.dumps(declaration))
    (folder / "transform.py").write_text((PIPELINES / "enriched_events" / "transform.py").read_text())
    with loading.ledger() as ledger, ledger.transaction():
        ledger.run_sql(SQL((PIPELINES / "impressions" / "offers.sql").read_text().replace("%", "%%")), {})
    return TopicLoading(folder=folder, bootstrap=loading.bootstrap, url=loading.url, spark=loading.spark)


def impression(number, device="phone"):
    return json.dumps(
        {
            "impression_id": str(uuid4()),
            "offer_id": number,
            "user_id": f"user {number}",
            "country": "DE",
            "device": device,
            "price_micros": 1_000_000,
            "shown_at": "2026-11-21T14:00:00Z",
        }
    )


def test_each_impression_is_read_once_with_its_offer_and_each_reject_in_its_topic(loads, names):
    source, enriched, rejects = names
    records.produce(loads.bootstrap, source, [*map(impression, range(1, 6)), impression(6, "robot"), "{bad"])
    loads.run()
    loads.expect(enriched, [(0, offset) for offset in range(5)])
    by_user = {one.key(): one for one in committed_records(loads.bootstrap, enriched)}
    first = by_user[b"user 1"]
    assert dict(first.headers())["country"] == b"DE"
    value = json.loads(first.value())
    assert (value["offer_id"], value["advertiser"], value["shown_at"]) == (
        1,
        "advertiser 1",
        "2026-11-21T14:00:00.000000Z",
    )
    assert [origin.rsplit("/", 1)[1] for origin in origins(loads.bootstrap, rejects)] == ["6"]
    assert sorted(demo_events.origins(loads.bootstrap, enriched)) == origins(loads.bootstrap, enriched)
