"""Rows that the output refuses when a batch is published: each statement that finds them is sent to both ledgers, and both must agree."""

from dataclasses import replace

import pytest

from faults import records
from faults.memory import Cluster, MemoryBroker, MemorySink, record
from given_ledger.ledgers import PIPELINE, RUN, claim, execute
from given_ledger.planners import declared
from tideline import flow
from tideline.domain.requests import NewRecords
from tideline.errors import FatalError, RetryableError
from tideline.sinks.postgres.sink import TableOutput
from tideline.sinks.sink import Publication, Winner
from tideline.spark_jobs import publishing

PIPE = declared("nowhere:9092", "ads", name=PIPELINE)


@pytest.fixture
def cluster():
    return Cluster(lambda *_: None)


@pytest.fixture
def sink(ledger, mirrored):
    """Create a sink whose names are UNIQUE on both sides."""
    execute(ledger, "ALTER TABLE ads.output ADD UNIQUE (name)")
    return MemorySink(mirrored, "ads.output", records.OUTPUT, item="item", unique=("name",))


@pytest.fixture
def load(session, cluster, sink):
    """Load one more batch of records, each given by the names of its rows; return the rejects."""

    broker = MemoryBroker(cluster, PIPE.source)
    topic = cluster.create("ads", 0)

    def load(*names, n_readable=None):
        topic.logs[0].append(len(names))
        [batch_id] = flow.plan(
            session, broker, PIPE, replace(RUN, run_id=f"run {topic.logs[0].stable_end}"), NewRecords()
        ).batch_ids
        attempt = claim(session, batch_id)
        [piece] = attempt.ranges
        rows = [
            (piece.stream_id, piece.offsets.start + number, (number, item, name, 1))
            for number, of_record in enumerate(names)
            for item, name in enumerate(of_record)
        ]
        staging = sink.create_staging(session, attempt)
        sink.copy(staging, 7, rows)
        count = {"first_read": piece.offsets.start, "last_read": piece.offsets.end - 1, "n_read": len(names)}
        record(session, attempt, counts=[{"stream_id": piece.stream_id, "n_filtered": 0, "n_bytes": 0, **count}])
        rejected = {}

        def reject(refused):
            readable = refused[:n_readable]
            given = [(one.stream_id, one.offset, "store", one.reason, None, None, b"x", None) for one in readable]
            record(session, attempt, rejects=given)
            rejected.update({one.offset - piece.offsets.start: one.reason for one in readable})
            return len(readable)

        publication = Publication(
            ledger=session,
            broker=broker,
            pipeline=PIPE,
            attempt=attempt,
            winners=[Winner(7, len(rows))],
            reject=reject,
            filtered_by_difference=False,
        )
        publishing.publish(publication, TableOutput(target=sink.target, attempt=attempt))
        return rejected

    return load


def taken(name):
    return f'duplicate key value violates unique constraint "output_name_key": Key (name)=({name}) already exists.'


def test_records_whose_rows_are_refused_become_rejects_and_others_are_published(mirrored, load):
    """Of two rows that exclude each other the first is kept. Values that only a refused record would have used stay free."""
    assert load(["a"], ["b", "a"], ["b"], [None, None], ["c"]) == {1: taken("a")}
    assert load(["d"], ["c"], ["e", "b"], ["e"]) == {1: taken("c"), 2: taken("b")}
    assert load(["f"]) == {}
    assert sorted(row.values[2] or "" for row in mirrored.outputs["ads", "output"].rows.values()) == [
        "", "", "a", "b", "c", "d", "e", "f",
    ]  # fmt: skip
    mirrored.check()


def test_refused_records_that_cannot_be_read_once_more_publish_nothing(mirrored, load):
    """Without their bytes they would be tried again forever."""
    load(["a"])
    with pytest.raises(RetryableError, match="2 records were refused, 1 of them could be read once more"):
        load(["a"], ["b"], ["a"], n_readable=1)
    assert len(mirrored.outputs["ads", "output"].rows) == 1
    mirrored.check()


def test_a_row_that_another_writer_has_put_in_the_place_of_one_is_no_records_fault(ledger, mirrored, session, load):
    """The batch fails, and its record is not rejected: it is unknown which of the two rows is right."""
    load(["a"])
    table = mirrored.outputs["ads", "output"]
    [((topic_id, *_), row)] = table.rows.items()
    values = (9, 0, "stranger", 1)
    execute(ledger, "INSERT INTO ads.output VALUES (9, 0, 'stranger', 1, %s, 0, 2, 1)", topic_id)
    table.rows[topic_id, 0, 2, 0] = row._replace(kafka_offset=2, values=values)
    with pytest.raises(
        FatalError,
        match="already holds a row of partition 0 offset 2, of batch 1, of pipeline impressions: another writer",
    ):
        load(["b"], ["c"], ["a"])
    mirrored.check()
