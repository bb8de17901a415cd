"""The lineage of loads into a topic and into Delta tables: names as OpenLineage's naming has them, columns where the output keeps any."""

import pytest

import records
from loads import lineage_events
from loads.lake_tables import into_lake


@pytest.fixture
def event(loading, monkeypatch, tmp_path):
    """Return a function that returns the event of the task `write` for batches."""
    return lineage_events.reading(loading, monkeypatch, tmp_path)


def test_an_output_topic_is_named_by_its_own_brokers_and_has_no_columns(loads, topic, out, event):
    loads.produce(topic, 3)
    loads.declare_topic(topic, out)
    found = event(loads.run())
    [source], [target] = found["inputs"], found["outputs"]
    assert (source["namespace"], source["name"]) == (f"kafka://{loads.bootstrap}", topic)
    assert (target["namespace"], target["name"]) == (f"kafka://{loads.bootstrap}", out)
    assert target["outputFacets"]["outputStatistics"]["rowCount"] == 3
    assert "schema" not in target["facets"]


def test_an_output_topic_on_other_brokers_is_named_by_the_first_of_them(loads, topic, out, event):
    """Only the address is read: nothing is written yet."""
    loads.produce(topic, 1)
    loads.declare_topic(topic, out)
    batch_ids = loads.plan("one")
    loads.declare_topic(topic, out, bootstrap_servers="other:9092,another:9093")
    [target] = event(batch_ids)["outputs"]
    assert (target["namespace"], target["name"]) == ("kafka://other:9092", out)


def test_a_delta_table_is_named_by_its_place_and_has_the_columns_of_its_log(loading, each_lake, event, monkeypatch):
    for name, value in each_lake.secrets.items():
        monkeypatch.setenv(name, value)
    topic = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, topic, [records.record(0), b"broken", records.record(1)])
    loading.declare(topic)
    into_lake(loading, each_lake)
    batch_ids = loading.plan("one")
    [planned] = event(batch_ids)["outputs"]
    assert "schema" not in planned["facets"], "there is no table yet"
    loading.write("one", batch_ids)
    [target] = event(batch_ids)["outputs"]
    in_store = each_lake.root.startswith("s3://")
    namespace = "/".join(each_lake.root.split("/")[:3]) if in_store else "file"
    path = f"{each_lake.root}/lake"
    assert (target["namespace"], target["name"]) == (
        namespace,
        path.removeprefix(f"{namespace}/") if in_store else path,
    )
    columns = {field["name"]: field["type"] for field in target["facets"]["schema"]["fields"]}
    assert columns == {
        "kafka_topic_id": "string",
        "kafka_partition": "integer",
        "kafka_offset": "long",
        "tideline_batch": "long",
        "id": "long",
        "name": "string",
        "price": "decimal(12,4)",
    }
    assert target["outputFacets"]["outputStatistics"]["rowCount"] == 2


def test_storage_that_does_not_answer_hides_columns_and_not_the_table(loading, lake, topic, event):
    loading.declare(topic)
    into_lake(loading, lake)
    loading.plan("one")
    into_lake(
        loading,
        lake,
        path="s3://bucket/key",
        storage={"aws_endpoint_url": "http://127.0.0.1:1", "aws_allow_http": "true", "aws_region": "nowhere"},
    )
    [target] = event([1])["outputs"]
    assert (target["namespace"], target["name"]) == ("s3://bucket", "key")
    assert "schema" not in target["facets"]
