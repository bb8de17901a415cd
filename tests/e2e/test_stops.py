"""The source changes under a pipeline: one stream stops, the others go on, and the log names the offsets and the command that resolves it.

One story of several pipelines at once, to save time: they begin, something happens to their topics, people decide, the next runs go on.
A log that ends behind its head is not here, because a real one cannot be cut at will: see tests/integration/test_losses.py.
"""

import os
import time
from dataclasses import dataclass

import pytest

import declaring
import holding
import records
from operating import WHO, decide, decisions, holes, proposed
from sources import forget, recreate
from system import System, decoded
from tideline.local.broker import Broker
from tideline.settings import PROJECT

LOSS = "the pipeline was down for a week"
OTHER = "moved to another project"
FEWER, MORE, NEVER = "recreated_fewer", "recreated_more", "recreated_never"
HOUR_MS = 3_600_000


@dataclass(frozen=True, kw_only=True)
class Told:
    """The runs after something has happened to the topics, by pipeline, and what was in these."""

    runs: dict[str, str]
    sent: dict[str, dict]
    next: dict[str, str]
    """The runs after those, before anybody has decided anything."""


def produce(system: System, topic: str, count: int, *, first: int = 0, **rest) -> dict:
    return records.produce(system.bootstrap, topic, map(records.record, range(first, first + count)), **rest)


def start(system: System, *names: str) -> dict[str, str]:
    return {name: system.start(name) for name in names}


def succeed(system: System, runs: dict[str, str]) -> None:
    for name, run_id in runs.items():
        system.succeed(name, run_id)


def fail(system: System, runs: dict[str, str]) -> None:
    for name, run_id in runs.items():
        assert system.airflow.finished(name, run_id) == "failed", name


@pytest.fixture(scope="module")
def begun(system) -> None:
    """Streams of which the ledger knows: empty ones, but for topics of which something must have been read."""
    records.create(system.bootstrap, name="outrun", partitions=2, **{"retention.ms": str(HOUR_MS)})
    records.create(system.bootstrap, name="overtaken", partitions=2)
    for topic in (FEWER, MORE, NEVER):
        records.create(system.bootstrap, name=topic)
        produce(system, topic, 10)
    succeed(system, start(system, "outrun", "overtaken", "recreated"))


@pytest.fixture(scope="module")
def told(system, begun) -> Told:
    late = round(time.time() * 1000) - HOUR_MS * 2 // 3
    sent = {
        "outrun": produce(system, "outrun", 40, partitions=2, timestamp_ms=late),
        "overtaken": produce(system, "overtaken", 40, partitions=2),
    }
    forget(system, "outrun", {0: 5})
    for topic, count in ((FEWER, 4), (MORE, 15)):
        recreate(system, topic)
        produce(system, topic, count, first=100)
    produce(system, NEVER, 5, first=200)
    runs = start(system, "overtaken", "outrun", "recreated")
    with holding.before_claim(system, "overtaken"):
        forget(system, "overtaken", {0: 5})
    fail(system, runs)
    again = start(system, "outrun", "overtaken", "recreated")
    fail(system, again)
    return Told(runs=runs, sent=sent, next=again)


def states(system: System, told: Told, name: str) -> list[str]:
    return [system.states(name, told.runs[name])[task] for task in ("plan", "write", "advance")]


def loaded_ids(system: System, topic: str) -> set[int]:
    """What was loaded of one of the topics of `recreated`, by all of its incarnations."""
    rows = system.rows(
        "SELECT id FROM e2e.recreated WHERE kafka_topic_id IN (SELECT topic_id FROM tideline.stream WHERE topic = %s)",
        topic,
    )
    return {row[0] for row in rows}


# Before anybody decides ----------------------------------------------------------------------------------------------------------


def test_retention_that_passed_the_head_stops_one_stream_and_the_others_go_on(system, told):
    assert states(system, told, "outrun") == ["success", "success", "failed"]
    lost = "outrun/0 at offset 0: offsets [0, 5) are gone unread"
    log = system.log("outrun", told.runs["outrun"], "advance")
    assert lost in log
    assert proposed(log) == {"tideline accept-loss outrun outrun/0 --reason ..."}
    assert (system.heads("outrun"), holes(system, "outrun")) == ([0, 20], [])


def test_a_run_that_finds_nothing_but_stopped_streams_fails_in_plan(system, told):
    assert system.states("outrun", told.next["outrun"])["plan"] == "failed"
    log = system.log("outrun", told.next["outrun"], "plan")
    assert "outrun/0 at offset 0: offsets [0, 5) are gone unread" in log
    assert proposed(log) == {"tideline accept-loss outrun outrun/0 --reason ..."}


def test_retention_that_passes_between_plan_and_write_stops_that_stream_alone(system, told):
    """The batch held both; its other stream is planned anew by the next run."""
    assert states(system, told, "overtaken") == ["success", "failed", "upstream_failed"]
    log = system.log("overtaken", told.runs["overtaken"], "write")
    assert "overtaken/0 [0, 20)" in log
    assert "offsets [0, 5) are gone unread" in log
    assert proposed(log) == {"tideline accept-loss overtaken overtaken/0 --reason ..."}
    [held] = system.planned("overtaken", told.runs["overtaken"])
    [other] = system.planned("overtaken", told.next["overtaken"])
    assert system.airflow.tasks("overtaken", told.runs["overtaken"])["write"]["try_number"] == 1
    assert (system.ranges(held), system.ranges(other)) == ({0: (0, 20), 1: (0, 20)}, {1: (0, 20)})
    assert system.batches("overtaken")[held] == "abandoned"
    assert system.heads("overtaken") == [0, 20]


def test_a_recreated_topic_stops_its_streams_also_where_it_holds_more_than_before(system, told):
    assert states(system, told, "recreated") == ["success", "success", "failed"]
    log = system.log("recreated", told.runs["recreated"], "advance")
    for topic in (FEWER, MORE):
        assert f"{topic}/0 at offset 10: the topic was deleted and created again" in log
    assert f"{NEVER}/0 at" not in log
    assert proposed(log) == {f"tideline adopt-topic recreated {topic} --reason ..." for topic in (FEWER, MORE)}
    assert loaded_ids(system, FEWER) == loaded_ids(system, MORE) == set(range(10))
    assert loaded_ids(system, NEVER) == {*range(10), *range(200, 205)}


def test_plan_warns_while_there_is_time_when_unread_records_have_used_half_of_their_retention(system, told):
    log = system.log("outrun", told.runs["outrun"], "plan")
    assert (
        "outrun/1: the oldest unread record, offset 0, has used more than half of the topic's retention of 1:00:00"
        in log
    )


# After somebody has decided ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def decided(system, told) -> dict[str, str]:
    """The next runs, once the commands have been run that the logs propose."""
    logs = {
        "outrun": system.log("outrun", told.runs["outrun"], "advance"),
        "overtaken": system.log("overtaken", told.runs["overtaken"], "write"),
        "recreated": system.log("recreated", told.runs["recreated"], "advance"),
    }
    for name, log in logs.items():
        for proposal in sorted(proposed(log)):
            decide(system, proposal, OTHER if name == "recreated" else LOSS)
    runs = start(system, "outrun", "overtaken", "recreated")
    succeed(system, runs)
    return runs


@pytest.mark.parametrize("name", ["outrun", "overtaken"])
def test_a_loss_that_is_accepted_is_a_hole_with_who_and_why_and_the_next_run_goes_on(system, told, decided, name):
    assert holes(system, name) == [(0, 0, 5, "lost", LOSS, WHO)]
    assert ("accept loss", LOSS) in decisions(system, name)
    left = {place: value for place, value in told.sent[name].items() if place not in {(0, n) for n in range(5)}}
    assert system.output(name) == decoded(left)
    assert system.heads(name) == [20, 20]


def test_an_adopted_topic_is_read_from_its_beginning_and_the_old_ones_history_stays(system, told, decided):
    rows = system.rows(
        "SELECT topic, state::text, start_offset, next_offset FROM tideline.stream WHERE pipeline = 'recreated' ORDER BY stream_id"
    )
    assert rows == [
        (FEWER, "retired", 0, 10),
        (MORE, "retired", 0, 10),
        (NEVER, "active", 0, 15),
        (FEWER, "active", 0, 4),
        (MORE, "active", 0, 15),
    ]
    assert loaded_ids(system, FEWER) == {*range(10), *range(100, 104)}
    assert loaded_ids(system, MORE) == {*range(10), *range(100, 115)}
    assert {reason for _, reason in decisions(system, "recreated")} == {OTHER}
    assert [action for action, _ in decisions(system, "recreated")].count("retire") == 2


# Others --------------------------------------------------------------------------------------------------------------------------


def test_retention_that_passes_while_records_are_read_stops_that_stream_and_publishes_nothing(system):
    """One partition is read by many more tasks than Spark runs at once: the first are held back while records go that others have yet to read.

    Not only a few more: a consumer fetches ahead, and as long as its tasks come one after the other it needs nothing more of the broker.
    """
    count = 5 * 20 * (os.cpu_count() or 1)
    records.create(system.bootstrap, name="drained", partitions=2)
    produce(system, "drained", count)
    produce(system, "drained", 3, first_partition=1)
    run_id = system.start("drained")
    with holding.while_staging(system, holding.writing(system, "drained")):
        forget(system, "drained", {0: count - 1})
    assert system.airflow.finished("drained", run_id) == "failed"
    log = system.log("drained", run_id, "write")
    assert f"drained/0 [0, {count}): offsets [0, {count - 1}) are gone unread" in log
    assert proposed(log) == {"tideline accept-loss drained drained/0 --reason ..."}
    stopped = system.rows("SELECT partition FROM tideline.stream WHERE pipeline = 'drained' AND state = 'stopped'")
    assert (stopped, system.output("drained")) == ([(0,)], {})


def test_another_cluster_behind_the_address_is_refused_and_nothing_changes(system, tmp_path):
    records.create(system.bootstrap, name="elsewhere")
    system.run("elsewhere")
    folder = system.folder / "pipelines" / "elsewhere"
    other = Broker(tmp_path, PROJECT / ".local" / "jars" / "kafka")
    other.start()
    try:
        records.create(other.bootstrap, name="elsewhere")
        records.produce(other.bootstrap, "elsewhere", map(records.record, range(100, 110)))
        declaring.declare(folder, servers=other.bootstrap)
        run_id = system.fail("elsewhere")
    finally:
        other.stop()
        declaring.declare(folder)
    [(cluster,)] = system.rows(
        "SELECT cluster_id FROM tideline.stream WHERE pipeline = 'elsewhere' AND state = 'active'"
    )
    assert f"expected cluster {cluster} at the declared address, found cluster " in system.log(
        "elsewhere", run_id, "plan"
    )
    back = system.run("elsewhere")
    assert set(system.states("elsewhere", back).values()) == {"skipped"}
    assert (system.batches("elsewhere"), system.heads("elsewhere")) == ({}, [0])
