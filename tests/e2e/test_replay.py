"""Replays: rows of exactly the named offsets are written again, in one transaction, and heads do not move. By the DAG `replay`, and by command."""

import json
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import unquote

import pytest

import records
from declared_pipelines import HOUR, LAST_TICK
from operator_acts import command
from system import Place, System, decoded
from topic_changes import forget

NAME = "replayed"
WHY = "prices were in cents"
LATE = LAST_TICK - HOUR
"""When the records of the third batch were sent; the others were sent hours before."""


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """Three batches of ten offsets for each of two partitions, their rows as first loaded, and the runs that replayed a part of each."""

    sent: dict
    loaded: list[int]
    before: dict[Place, tuple]
    batch: str
    ranges: str
    window: str


def replay(system: System, **conf) -> str:
    return system.start("replay", pipeline=NAME, reason=WHY, **conf)


def rows(system: System) -> dict[Place, tuple]:
    """Return batch and version of each row, by place."""
    found = system.rows(f"SELECT kafka_partition, kafka_offset, tideline_batch, xmin::text, ctid::text FROM e2e.{NAME}")
    return {row[:2]: row[2:] for row in found}


@pytest.fixture(scope="module")
def replayed(system) -> Replayed:
    records.create(system.bootstrap, name=NAME, partitions=2)
    sent = produce(system, 0, 40, LATE - 3 * HOUR) | produce(system, 40, 60, LATE)
    loaded = system.planned(NAME, system.run(NAME))
    before = rows(system)
    batch = replay(system, batch_id=loaded[0])
    ranges = replay(system, ranges=[f"{NAME}/0 [12, 15)"])
    window = replay(system, window_start=LATE.isoformat(), window_end=LAST_TICK.isoformat())
    for run_id in (batch, ranges, window):
        system.succeed("replay", run_id)
    return Replayed(sent=sent, loaded=loaded, before=before, batch=batch, ranges=ranges, window=window)


def produce(system: System, first: int, end: int, hour) -> dict:
    moment = round((hour + timedelta(minutes=5)).timestamp() * 1000)
    values = map(records.record, range(first, end))
    return records.produce(system.bootstrap, NAME, values, partitions=2, timestamp_ms=moment)


def places(start: int, end: int, *, partitions: tuple[int, ...] = (0, 1)) -> set[Place]:
    return {(partition, offset) for partition in partitions for offset in range(start, end)}


def test_rows_of_exactly_the_replayed_offsets_are_replaced(system, replayed):
    owners = {}
    for run_id, replaced in (
        (replayed.batch, places(0, 10)),
        (replayed.ranges, places(12, 15, partitions=(0,))),
        (replayed.window, places(20, 30)),
    ):
        [batch_id] = system.planned("replay", run_id)
        owners |= dict.fromkeys(replaced, batch_id)
    after = rows(system)
    assert {place: row for place, row in after.items() if row != replayed.before[place]}.keys() == owners.keys()
    assert {place: row[0] for place, row in after.items()} == {
        place: owners.get(place, replayed.before[place][0]) for place in replayed.before
    }
    assert system.heads(NAME) == [30, 30]


def test_coverage_shows_the_new_owner_of_each_offset(system, replayed):
    """The coverage agrees with the rows."""
    found = system.rows(
        "SELECT partition, generate_series(lower(offsets), upper(offsets) - 1), batch_id "
        "FROM tideline.coverage JOIN tideline.stream USING (stream_id) WHERE pipeline = %s",
        NAME,
    )
    assert {row[:2]: row[2] for row in found} == {place: row[0] for place, row in rows(system).items()}


def test_a_batch_that_owns_nothing_is_superseded_and_one_that_owns_less_says_so(system, replayed):
    states = system.batches(NAME)
    assert [states[batch_id] for batch_id in replayed.loaded] == ["superseded", "advanced", "superseded"]
    partly = "SELECT batch_id, detail->>'by' FROM tideline.event WHERE pipeline = %s AND action = 'supersede partly'"
    [by] = system.planned("replay", replayed.ranges)
    assert system.rows(partly, NAME) == [(replayed.loaded[1], str(by))]
    assert system.rows("SELECT DISTINCT reason FROM tideline.batch WHERE pipeline = %s AND kind = 'replay'", NAME) == [
        (WHY,)
    ]


def test_a_loaded_pipeline_is_sound(system, replayed):
    """Check with the command line next to a real Airflow, whose DAGs it sees."""
    said = json.loads(command(system, "tideline", "doctor", NAME, "--json"))
    checks = {(check["about"], check["check"]): check for check in said["checks"]}
    assert {check["verdict"] for place, check in checks.items() if place != ("ledger", "staging")} == {"ok"}
    assert checks["airflow", "connection"]["found"].startswith("Airflow 3.")
    assert checks[NAME, "dag"]["found"] == "is not paused"
    assert checks[NAME, "output"]["found"] == f"e2e.{NAME} can be written"


def test_a_replay_by_command_waits_for_its_paused_dag(system, replayed):
    [old] = system.planned("replay", replayed.window)
    before = system.batches(NAME)
    assert before[old] == "advanced"
    system.airflow.call("PATCH", f"dags/{NAME}", is_paused=True)
    said = command(system, "tideline", "replay", NAME, "--batch", str(old), "--reason", "to see it work", "--json")
    [run] = json.loads(said)["runs"]
    assert run["dag_is_paused"] is True
    assert system.batches(NAME) == before | {run["batch_id"]: "planned"}

    system.airflow.unpause(NAME)
    system.succeed(NAME, unquote(run["url"].rpartition("/")[2]))
    assert system.batches(NAME) == before | {old: "superseded", run["batch_id"]: "advanced"}
    assert {place for place, row in rows(system).items() if row[0] == run["batch_id"]} == places(20, 30)
    assert system.output(NAME) == decoded(replayed.sent)


def test_offsets_that_kafka_no_longer_holds_are_refused_with_what_is_still_there(system, replayed):
    before = (rows(system), system.batches(NAME))
    forget(system, NAME, {0: 5})
    run_id = replay(system, batch_id=replayed.loaded[0])
    assert system.airflow.finished("replay", run_id) == "failed"
    assert system.airflow.tasks("replay", run_id)["plan"]["try_number"] == 1
    assert f"{NAME}/0 [0, 10): Kafka holds [5, 30) of this partition" in system.log("replay", run_id, "plan")
    assert (rows(system), system.batches(NAME)) == before
