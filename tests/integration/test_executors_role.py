"""Driver and executors load with roles of their own, and executors never have the URL of another role."""

import os
from pathlib import Path

import pytest

import records
from given_ledger import granted_rights
from loads import loading, sessions
from loads.loading import Loading
from loads.sessions import TARGET, check, send
from servers.schema_registry import SchemaRegistry

CLICKS = [
    (partition, user, minute, "1.5") for minute in range(0, 400, 40) for partition, user in ((0, "ann"), (1, "bob"))
]
GRANTS = """
    GRANT USAGE ON SCHEMA ads TO tideline_writer, tideline_operator;
    GRANT SELECT, INSERT, DELETE ON ads.output, ads.orders TO tideline_writer;
    GRANT SELECT, DELETE ON ads.output, ads.orders TO tideline_operator
    """


@pytest.fixture
def roles(postgres):
    with granted_rights.warehouse(postgres) as warehouse:
        warehouse.run(TARGET, duty="owner")
        warehouse.run(loading.TARGET.replace("ads.output", "ads.orders"), duty="owner")
        warehouse.run(GRANTS, duty="owner")
        yield warehouse.urls


@pytest.fixture
def loads(roles, broker, spark, tmp_path, monkeypatch):
    """Provide a pipeline whose driver is the writer and whose executors are the stager."""
    monkeypatch.setenv("TIDELINE_KAFKA", broker.bootstrap)
    monkeypatch.setenv("TIDELINE_LEDGER_URL", roles.writer)
    monkeypatch.setenv("TIDELINE_STAGER_URL", roles.stager)
    return Loading(
        folder=tmp_path / "loads", bootstrap=broker.bootstrap, url=roles.operator, writer_url=roles.writer, spark=spark
    )


def test_a_pipeline_with_state_loads_with_a_role_for_each_process(loads):
    """Executors read states, and stage rows, states, counts and rejects."""
    topic = records.create(loads.bootstrap, partitions=2)
    sessions.declare(loads, topic, batch_records=8)
    send(loads, topic, [*CLICKS, (0, "ann", None, "1")])
    loads.run()
    found = check(loads, [*CLICKS, (0, "ann", None, "1")])
    assert found.rejects
    assert found.rows
    assert not loads.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'tideline_staging'")


def test_executors_keep_the_schemas_that_records_name(loads):
    """They may call two functions, and neither read nor change a table of schemas."""
    topic = records.create(loads.bootstrap)
    with SchemaRegistry() as registry:
        value = {"format": "json", "frame": "confluent", "columns": loading.COLUMNS}
        target = loading.TARGET.replace("ads.output", "ads.orders")
        loads.declare(topic, target=target, table="ads.orders", value=value, registry={"urls": [registry.url]})
        registry.register("orders-value", "{}", kind="JSON")
        records.produce(loads.bootstrap, topic, [b'\0\0\0\0\1{"id": 1}'])
        loads.run()
    assert loads.rows("SELECT id FROM ads.orders") == [(1,)]


def test_the_processes_of_tasks_have_no_url_of_the_ledger(spark):
    """The Spark of the tests was started with URLs in its environment, as a driver of a local master has them."""

    def environments(_: int) -> tuple[str, str]:
        """Return the environment of the process as it is, and that with which it was started, which others of its user can read."""
        return "\0".join(os.environ), Path("/proc/self/environ").read_text()

    for found in spark.sparkContext.range(2, numSlices=2).map(environments).collect():
        names = [{word.partition("=")[0] for word in text.split("\0")} for text in found]
        assert all("TIDELINE_TEST_STARTED" in of for of in names)
        assert [name for of in names for name in of if name.startswith("TIDELINE_") and name.endswith("_URL")] == []
