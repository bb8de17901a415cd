"""The lineage of a load, as Airflow's OpenLineage provider extracts it and writes it with its file transport."""

import pytest
from airflow.utils.state import TaskInstanceState
from psycopg2.extensions import parse_dsn

import records
from loads import lineage_events


@pytest.fixture
def event(loading, monkeypatch, tmp_path):
    """Return a function that returns the event of the task `write` for batches."""
    return lineage_events.reading(loading, monkeypatch, tmp_path)


def counted(read, written, rejected):
    return {"read": read, "written": written, "rejected": rejected, "filtered": 0, "gap": 0}


def test_an_event_names_topic_and_table_with_columns_ranges_and_counts(loading, event):
    topic = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, topic, [records.record(0), b"broken", records.record(1)])
    loading.declare(topic, batch_records=2)
    batch_ids = loading.run()
    found = event(batch_ids)
    [source], [target] = found["inputs"], found["outputs"]
    assert (source["namespace"], source["name"]) == (f"kafka://{loading.bootstrap}", topic)
    assert {"name": "id", "type": "bigint"}.items() <= source["facets"]["schema"]["fields"][0].items()
    assert source["inputFacets"]["inputStatistics"]["rowCount"] == 3
    ranges = source["inputFacets"]["tideline_ranges"]
    assert ranges["n_ranges"] == 2
    assert ranges["ranges"] == [
        {"partition": 0, "start": 0, "end": 2, **counted(2, 1, 1)},
        {"partition": 0, "start": 2, "end": 3, **counted(1, 1, 0)},
    ]
    place = parse_dsn(loading.url)
    assert target["namespace"] == f"postgres://{place['host']}:{place['port']}"
    assert target["name"].startswith(f"{place['dbname']}.")
    columns = {field["name"]: field["type"] for field in target["facets"]["schema"]["fields"]}
    assert columns.items() >= {"id": "bigint", "kafka_offset": "bigint", "kafka_topic_id": "uuid"}.items()
    assert target["outputFacets"]["outputStatistics"]["rowCount"] == 2
    batches = found["run"]["facets"]["tideline_batches"]["batches"]
    assert [(each["batch"], each["kind"], each["written"]) for each in batches] == [(n, "live", 1) for n in batch_ids]


@pytest.mark.parametrize("state", [TaskInstanceState.RUNNING, TaskInstanceState.FAILED])
def test_batches_that_are_not_published_have_no_counts(loading, event, state):
    topic = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, topic, [records.record(0)])
    loading.declare(topic)
    found = event(loading.plan("one"), state)
    [source], [target] = found["inputs"], found["outputs"]
    assert source["name"] == topic
    assert not source.get("inputFacets")
    assert not target.get("outputFacets")
    assert "tideline_batches" not in found["run"]["facets"]
