"""Fixtures of the tests of sinks."""

import pytest

from given_topics.output_topics import Frozen
from loads import lake_tables
from loads.kafka_loading import loading_of, output_of
from loads.lake_tables import mounted
from loads.outside_log import scene
from servers import s3_server, spark_tables

__all__ = ["mounted", "scene"]


@pytest.fixture
def out(admin, topic):
    """Return the output topic of the source topic."""
    return output_of(admin, topic)


@pytest.fixture
def frozen(broker):
    """Return a function that starts an attempt at a topic, which stops itself at a door. Those that a test leaves stopped are ended: a failed
    assertion, as of a mutant, would leave them for good."""
    started = []

    def start(out, door, batch_id, own):
        started.append(Frozen(door, batch_id, own, servers=broker.bootstrap, topic=out, pipeline=out))
        return started[-1]

    yield start
    for one in started:
        one.killed()


@pytest.fixture
def loads(loading):
    """Return the declared pipeline, which writes to a topic."""
    return loading_of(loading)


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    """Return a bucket of an object store."""
    with s3_server.running(tmp_path_factory.mktemp("s3") / "server.log") as store:
        yield store


@pytest.fixture(scope="session")
def other_spark(tmp_path_factory):
    """Start Spark's own Delta, as another program that reads and changes tables of loads."""
    with spark_tables.running(tmp_path_factory.mktemp("other_spark")) as session:
        yield session


@pytest.fixture
def lake(request, tmp_path, monkeypatch):
    """Return a place for Delta tables: a folder, or the object store that TIDELINE_TEST_S3 names."""
    if s3_server.given() is None:
        return lake_tables.in_folder(tmp_path)
    lake = lake_tables.in_store(request.getfixturevalue("store"))
    for name, value in lake.secrets.items():
        monkeypatch.setenv(name, value)
    return lake


@pytest.fixture(params=["folder", "object store"])
def each_lake(request, tmp_path):
    """Return a place for Delta tables: a folder, and an object store."""
    if request.param == "folder":
        return lake_tables.in_folder(tmp_path)
    return lake_tables.in_store(request.getfixturevalue("store"))
