"""Each sink passes the contract: a table in the ledger's database in both modes, the smallest outside sink, topics, and Delta tables."""

import pytest
from pyspark import cloudpickle

from loads import file_sink, lake_tables, upserts
from loads.file_sink import FileOutput, FileSink, log_of
from loads.kafka_loading import loading_of, output_of
from loads.sink_contract import SinkCase, SinkContract, loses_answer_of, loses_answer_of_the_ledger
from tideline.sinks.delta.kind import DeltaTables
from tideline.sinks.delta.sink import DeltaTableOutput
from tideline.sinks.kafka.sink import TopicOutput


class TestPostgresAppend(SinkContract):
    @pytest.fixture
    def case(self, loading, topic):
        return SinkCase(
            loading=loading,
            topic=topic,
            declare=lambda transform: loading.declare(topic, transform=transform, fail_above=1.0),
            visible=lambda: sorted(loading.output()) if loading.published() else [],
            loses_answer=loses_answer_of_the_ledger,
            outside=False,
        )


class TestPostgresUpsert(SinkContract):
    """Each record of the contract has a key of its own, so each of them has a row."""

    @pytest.fixture
    def case(self, loading, topic):
        sink = {"mode": "upsert", "key": ["id"]}
        return SinkCase(
            loading=loading,
            topic=topic,
            declare=lambda transform: loading.declare(
                topic, transform=transform, fail_above=1.0, target=upserts.TARGET, sink=sink
            ),
            visible=lambda: sorted(loading.output()) if loading.published() else [],
            loses_answer=loses_answer_of_the_ledger,
            outside=False,
        )


class TestFiles(SinkContract):
    @pytest.fixture
    def case(self, loading, topic, tmp_path, monkeypatch):
        cloudpickle.register_pickle_by_value(file_sink)  # the executors do not import the tests
        monkeypatch.setattr(DeltaTables, "outside", lambda _, pipeline, *__, **___: log_of(pipeline))
        monkeypatch.setattr(DeltaTables, "sink", lambda *_: FileSink())
        sink = {"kind": "delta", "path": str(tmp_path / "files")}
        return SinkCase(
            loading=loading,
            topic=topic,
            declare=lambda transform: loading.declare(topic, transform=transform, fail_above=1.0, sink=sink),
            visible=lambda: sorted((row[1], row[2]) for row in log_of(loading.pipeline).rows()),
            loses_answer=loses_answer_of(FileOutput),
        )


class TestKafka(SinkContract):
    @pytest.fixture
    def case(self, loading, admin, topic):
        loads, out = loading_of(loading), output_of(admin, topic)
        return SinkCase(
            loading=loads,
            topic=topic,
            declare=lambda transform: loads.declare_topic(topic, out, transform=transform),
            visible=lambda: loads.places(out),
            loses_answer=loses_answer_of(TopicOutput),
            replays=False,
        )


class TestDelta(SinkContract):
    @pytest.fixture
    def case(self, loading, topic, lake):
        def declare(transform):
            loading.declare(topic, transform=transform, fail_above=1.0)
            lake_tables.into_lake(loading, lake)

        def visible():
            there = lake_tables.output(loading).location.open() is not None
            return sorted(lake_tables.lake_rows(loading)) if there else []

        return SinkCase(
            loading=loading,
            topic=topic,
            declare=declare,
            visible=visible,
            loses_answer=loses_answer_of(DeltaTableOutput),
        )
