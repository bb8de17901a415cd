"""Starting runs by records, on a real broker.

A trigger fires once at its start and when its topics have grown; and a run may leave records behind.
"""

import asyncio
import json
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest
from airflow.triggers.base import BaseEventTrigger

from given_ledger import planners
from given_topics.topics import created, grown, produce, recreate, transaction
from tideline import flow
from tideline.airflow import trigger
from tideline.airflow.trigger import NewRecordsTrigger
from tideline.kafka.broker import Broker

NAME = "woken"


@pytest.fixture
def declare(tmp_path, monkeypatch, broker):
    """Declare the pipeline; a second call changes its topics."""
    monkeypatch.setenv("TIDELINE_PIPELINES", str(tmp_path))
    monkeypatch.setattr(trigger, "LOOK_EVERY_SECONDS", 0.05)

    def write(*topics, servers=broker.bootstrap):
        source = {"bootstrap_servers": servers, "topics": topics, "value": {"format": "bytes"}}
        folder = tmp_path / NAME
        folder.mkdir(exist_ok=True)
        (folder / "pipeline.yaml").write_text(
            json.dumps({"description": "A test", "source": source, "sink": {"table": "s.t"}})
        )
        (folder / "target.sql").touch()

    return write


class Watching:
    """A trigger that runs as the triggerer runs it."""

    def __init__(self, events):
        self._events = events
        self._next = None

    async def fired(self, *, within=30):
        """Return whether an event is fired in time."""
        self._next = self._next or asyncio.ensure_future(anext(self._events))
        done, _ = await asyncio.wait([self._next], timeout=within)
        if not done:
            return False
        event, self._next = self._next.result(), None
        return event.payload == {"pipeline": NAME}

    async def end(self):
        if self._next:
            self._next.cancel()
            await asyncio.wait([self._next])
        await self._events.aclose()


@asynccontextmanager
async def watching():
    classpath, kwargs = NewRecordsTrigger(pipeline=NAME).serialize()
    assert classpath == "tideline.airflow.trigger.NewRecordsTrigger"
    watch = Watching(NewRecordsTrigger(**kwargs).run())
    yield watch
    await watch.end()


def test_it_fires_once_when_it_starts_and_then_when_records_come(broker, topic, declare):
    """Records that arrived while the trigger was not running count as well; an event that was lost with the triggerer is repeated."""
    declare(topic)
    produce(broker, topic, 3)

    async def look():
        async with watching() as watch:
            assert await watch.fired()
            assert not await watch.fired(within=1)
            produce(broker, topic, 1)
            assert await watch.fired()
            assert not await watch.fired(within=1)

    asyncio.run(look())


def test_it_fires_for_each_partition_and_topic(broker, admin, topic, declare):
    other = created(admin, f"another_{uuid4().hex[:8]}", partitions=3)
    declare(topic, other)

    async def look():
        async with watching() as watch:
            assert await watch.fired()
            produce(broker, other, 1, partition=2)
            assert await watch.fired()

    asyncio.run(look())


def test_records_of_an_open_transaction_start_no_run_until_it_ends(broker, topic, declare):
    declare(topic)

    async def look():
        async with watching() as watch:
            assert await watch.fired()
            producer = transaction(broker, topic, [0], count=5)
            assert not await watch.fired(within=1)
            producer.commit_transaction(20)
            assert await watch.fired()

    asyncio.run(look())


def test_a_topic_that_was_created_again_wakes_as_well(broker, admin, topic, declare):
    """The run that it starts stops the streams and reports it."""
    declare(topic)

    async def look():
        async with watching() as watch:
            assert await watch.fired()
            recreate(admin, topic)
            assert await watch.fired()

    asyncio.run(look())


@pytest.mark.parametrize("mistake", ["a broker that is down", "a broken declaration"])
def test_what_keeps_it_from_looking_is_waited_out_and_logged(topic, declare, tmp_path, caplog, mistake):
    declare(topic, servers="127.0.0.1:1")
    if mistake == "a broken declaration":
        (tmp_path / NAME / "pipeline.yaml").write_text("description: nothing else")

    async def look():
        async with watching() as watch:
            assert not await watch.fired(within=1)
            declare(topic)
            assert await watch.fired()

    asyncio.run(look())
    assert f"{NAME}: cannot see whether there are new records: " in caplog.text


def test_two_triggers_of_a_pipeline_are_one_to_airflow_and_those_of_two_are_two():
    hashes = [BaseEventTrigger.hash(*NewRecordsTrigger(pipeline=name).serialize()) for name in ("a", "a", "b")]
    assert hashes[0] == hashes[1] != hashes[2]


def test_a_run_that_may_not_plan_all_there_is_is_behind_and_the_next_one_is_not(ledger, ledger_url, broker, topic):
    """No record arrives that would start a run for what the first run has left."""
    pipeline = planners.declared(broker.bootstrap, topic, batch_records=10, run_batches=1)
    produce(broker, topic, 15)
    behind = []
    for name in ("first", "second"):
        planners.load(ledger, planners.plan(ledger_url, pipeline, name))
        behind.append(flow.is_behind(ledger, Broker(pipeline.source), planners.NAME))
    assert behind == [True, False]


def test_a_partition_that_was_never_read_is_behind_when_it_has_records(ledger, ledger_url, broker, admin, topic):
    pipeline = planners.declared(broker.bootstrap, topic)
    produce(broker, topic, 1)
    planners.load(ledger, planners.plan(ledger_url, pipeline, "first"))
    grown(admin, topic, 2)
    assert not flow.is_behind(ledger, Broker(pipeline.source), planners.NAME)
    produce(broker, topic, 1, partition=1)
    assert flow.is_behind(ledger, Broker(pipeline.source), planners.NAME)


def test_a_broker_that_does_not_answer_counts_as_one_that_has_more(ledger, topic):
    """A superfluous run is skipped; a missing run leaves records unread until others arrive."""
    pipeline = planners.declared("127.0.0.1:1", topic)
    assert flow.is_behind(ledger, Broker(pipeline.source), planners.NAME)
