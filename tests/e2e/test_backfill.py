"""Runs of one pipeline that Airflow starts for different reasons: by schedule and by hand at once, backfills of past hours, and a replay.

For the laws about offsets and rows see tests/integration/test_backfill.py, test_backfill_races.py and test_replay.py.
"""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

import pytest

import held_tasks
import records
from declared_pipelines import BACKFILLS, HOUR, LAST_TICK
from operator_acts import are_over, backfill, command, hours
from system import Place, System, decoded

NAME = "backfilled"
WHY = "prices were in cents"


def ago(count: int) -> datetime:
    """Return the beginning of an hour: 1 is the one that the newest scheduled run loads, and 0 has not ended."""
    return LAST_TICK - count * HOUR


def produce(system: System, moment: datetime, first: int) -> dict[Place, bytes | None]:
    """Send five records to each of two partitions."""
    milliseconds = round(moment.timestamp() * 1000)
    values = map(records.record, range(first, first + 10))
    return records.produce(system.bootstrap, NAME, values, partitions=2, timestamp_ms=milliseconds)


def both(start: int, end: int) -> dict[int, tuple[int, int]]:
    return {0: (start, end), 1: (start, end)}


@dataclass(frozen=True, kw_only=True)
class Past:
    """A pipeline that begins with hour 1, after all of its runs."""

    sent: dict[datetime, dict[Place, bytes | None]]
    heads: list[list[int]]
    """The heads that were observed, from before the first run to the end of all runs."""
    scheduled: str
    live: int
    """The batch of the scheduled run, which was being written when the manual one was planned."""
    manual: str
    before: dict[Place, tuple]
    """Batch and version of each row before the replay."""
    replay: str
    again: list[int]
    """The batches of the backfill that loads an hour again."""


@pytest.fixture(scope="module")
def past(system) -> Past:
    records.create(system.bootstrap, name=NAME, partitions=2)
    system.pool(BACKFILLS, slots=1)
    moments = {2: ago(2), 1: ago(0) - timedelta(milliseconds=1), 0: ago(0)}  # none in hour 3
    sent = {ago(count): produce(system, moment, 100 * count) for count, moment in moments.items()}
    heads: list[list[int]] = []

    def over() -> bool:
        heads.append(system.heads(NAME))
        return are_over(system, NAME, [ago(count) for count in (3, 2, 1)])

    scheduled = system.scheduled(NAME)
    write = held_tasks.writing(system, NAME, scheduled)
    heads.append(system.heads(NAME))
    with held_tasks.before_publish(system, write.batch_id):
        manual = system.airflow.trigger(NAME)
        system.await_plan(NAME, manual)
    backfill(system, NAME, ago(3), ago(2), backwards=True)
    system.wait(over, "the runs of the backfill to end", seconds=600)
    for run_id in (manual, *(run_id for run_id, _ in hours(system, NAME).values())):
        system.succeed(NAME, run_id)
    heads.append(system.heads(NAME))  # the backfill may be over before the manual run
    before = rows(system)
    replay = system.run("replay", pipeline=NAME, reason=WHY, ranges=[f"{NAME}/0 [6, 9)"])
    return Past(
        sent=sent,
        heads=heads,
        scheduled=scheduled,
        live=write.batch_id,
        manual=manual,
        before=before,
        replay=replay,
        again=planned_again(system),
    )


def planned_again(system: System) -> list[int]:
    """Start a backfill that loads hour 2 again, and return what it plans. It writes nothing: the pool has no slots any more."""
    system.pool(BACKFILLS, slots=0)
    run_id, _ = hours(system, NAME)[ago(2)]
    [old] = system.planned(NAME, run_id)
    backfill(system, NAME, ago(2), ago(2), reprocess="completed", replace=True, reason=WHY)
    planned = "SELECT 1 FROM tideline.batch WHERE pipeline = %s AND run_id = %s AND batch_id > %s"
    system.wait(lambda: system.rows(planned, NAME, run_id, old), "hour 2 to be planned again")
    return system.plan_only(NAME, run_id)


def rows(system: System) -> dict[Place, tuple]:
    """Return batch and version of each row, by place."""
    found = system.rows(f"SELECT kafka_partition, kafka_offset, tideline_batch, xmin::text, ctid::text FROM e2e.{NAME}")
    return {row[:2]: row[2:] for row in found}


def batches_of(system: System, run_id: str) -> list[tuple[int, str]]:
    """Return the batches that a run was the first to plan, with their kinds, in order."""
    rows = system.rows(
        "SELECT batch_id, kind::text FROM tideline.batch WHERE pipeline = %s AND run_id = %s ORDER BY batch_id",
        NAME,
        run_id,
    )
    return [(batch_id, kind) for batch_id, kind in rows]


def test_a_scheduled_run_reads_up_to_the_end_of_its_interval(system, past):
    assert batches_of(system, past.scheduled) == [(past.live, "live")]
    assert system.ranges(past.live) == both(5, 10)
    written = {place for place, row in past.before.items() if row[0] == past.live}
    assert written == set(past.sent[ago(1)])


def test_a_manual_run_beside_it_takes_over_what_is_open_and_loads_only_what_is_new(system, past):
    [first, own] = system.planned(NAME, past.manual)
    assert first == past.live
    assert batches_of(system, past.manual) == [(own, "live")]
    assert system.ranges(own) == both(10, 15)
    assert system.attempts(NAME)[:2] == [(1, "published"), (1, "published")]


def test_a_past_hour_is_filled_with_exactly_its_records(system, past):
    run_id, _ = hours(system, NAME)[ago(2)]
    (filled, kind), *_ = batches_of(system, run_id)
    assert (kind, system.ranges(filled)) == ("backfill", both(0, 5))
    everything = {place: value for hour in past.sent.values() for place, value in hour.items()}
    assert system.output(NAME) == decoded(everything)


def test_heads_neither_jump_nor_go_back_while_the_past_is_filled(system, past):
    """The stream begins with hour 1. Whether one is seen between the scheduled run and the manual one depends on their order."""
    seen = [heads for heads, _ in groupby(past.heads)]
    assert seen in ([[5, 5], [10, 10], [15, 15]], [[5, 5], [15, 15]])
    assert system.heads(NAME) == [15, 15]


def test_an_hour_without_anything_missing_ends_as_skipped(system, past):
    run_id, state = hours(system, NAME)[ago(3)]
    assert state == "success"
    states = system.states(NAME, run_id)
    # It may or may not announce what concurrent runs have published, depending on their order.
    assert states.pop("announce") in {"skipped", "success"}
    assert states == {"plan": "skipped", "write": "skipped", "advance": "skipped"}


def test_the_dag_replay_replaces_rows_of_exactly_the_named_offsets(system, past):
    [batch_id] = system.planned("replay", past.replay)
    after = rows(system)
    replaced = {place for place, row in after.items() if row != past.before[place]}
    assert replaced == {(0, 6), (0, 7), (0, 8)}
    assert {after[place][0] for place in replaced} == {batch_id}
    facts = "SELECT kind::text, reason, state::text FROM tideline.batch WHERE batch_id = %s"
    assert system.rows(facts, batch_id) == [("replay", WHY, "advanced")]


def test_a_backfill_that_says_so_and_why_plans_a_loaded_hour_again(system, past):
    [new] = past.again
    facts = "SELECT kind::text, reason FROM tideline.batch WHERE batch_id = %s"
    assert system.rows(facts, new) == [("replay", WHY)]
    assert system.ranges(new) == both(0, 5)


def test_a_loaded_pipeline_is_sound(system, past):
    """Check with the command line next to a real Airflow, whose DAGs it sees."""
    said = json.loads(command(system, "tideline", "doctor", NAME, "--json"))
    checks = {(check["about"], check["check"]): check for check in said["checks"]}
    assert {check["verdict"] for place, check in checks.items() if place != ("ledger", "staging")} == {"ok"}
    assert checks["airflow", "connection"]["found"].startswith("Airflow 3.")
    assert checks[NAME, "dag"]["found"] == "is not paused"
    assert checks[NAME, "output"]["found"] == f"e2e.{NAME} can be written"
