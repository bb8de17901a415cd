"""Airflow backfills over past hours: they load what is missing, in any order, concurrently with live runs, and replace only on request."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

import pytest

import held_tasks
import records
from declared_pipelines import HOUR, LAST_TICK
from operator_acts import WHO, are_over, backfill, command, decisions, holes, hours
from system import System, decoded

NAME = "backfilled"
POISON = "crashes the transform"


def ago(count: int) -> datetime:
    """Return the beginning of an hour: 1 is the one that the newest scheduled run loads."""
    return LAST_TICK - count * HOUR


def produce(system: System, name: str, hour: datetime, first: int) -> dict:
    """Send five records to each of two partitions."""
    moment = round((hour + timedelta(minutes=5)).timestamp() * 1000)
    values = map(records.record, range(first, first + 10))
    return records.produce(system.bootstrap, name, values, partitions=2, timestamp_ms=moment)


@dataclass(frozen=True, kw_only=True)
class Past:
    """A pipeline that begins with hour 1, and the three hours before it after the backfill."""

    sent: dict[datetime, dict]
    heads: list[list[int]]
    """The heads that were observed, from before the backfill to its end."""
    live: int
    """The batch of the scheduled run, which was being written during the backfill."""


@pytest.fixture(scope="module")
def past(system) -> Past:
    records.create(system.bootstrap, name=NAME, partitions=2)
    sent = {ago(count): produce(system, NAME, ago(count), 100 * count) for count in (4, 2, 1)}  # none in hour 3
    wanted = [ago(count) for count in (4, 3, 2)]
    heads: list[list[int]] = []

    def over() -> bool:
        heads.append(system.heads(NAME))
        return are_over(system, NAME, [*wanted, ago(1)])

    system.airflow.unpause(NAME)
    live = held_tasks.writing(system, NAME).batch_id
    with held_tasks.before_publish(system, live):
        backfill(system, NAME, ago(4), ago(2), backwards=True)
        planned = "SELECT batch_id FROM tideline.batch WHERE pipeline = %s AND kind = 'backfill'"
        system.wait(lambda: over() or system.rows(planned, NAME), "a run of the backfill to be planned")
    system.wait(over, "the runs of the backfill to end", seconds=600)
    for run_id, _ in hours(system, NAME).values():
        system.succeed(NAME, run_id)
    return Past(sent=sent, heads=heads, live=live)


def batches_of(system: System, hour: datetime) -> dict[int, tuple[str, dict]]:
    """Return kind and ranges of the batches that the run of an hour has planned."""
    run_id, _ = hours(system, NAME)[hour]
    rows = system.rows(
        "SELECT batch_id, kind::text FROM tideline.batch WHERE pipeline = %s AND run_id = %s", NAME, run_id
    )
    return {batch_id: (kind, system.ranges(batch_id)) for batch_id, kind in rows}


def test_each_past_hour_is_filled_with_exactly_its_records_beside_a_live_run(system, past):
    assert [list(batches_of(system, ago(count)).values()) for count in (4, 2)] == [
        [("backfill", {0: (start, start + 5), 1: (start, start + 5)})] for start in (0, 5)
    ]
    assert batches_of(system, ago(1)) == {past.live: ("live", {0: (10, 15), 1: (10, 15)})}
    everything = {place: value for hour in past.sent.values() for place, value in hour.items()}
    assert system.output(NAME) == decoded(everything)


def test_heads_neither_jump_nor_go_back_while_the_past_is_filled(system, past):
    """The stream begins with hour 1."""
    assert [heads for heads, _ in groupby(past.heads)] == [[10, 10], [15, 15]]


def test_an_hour_without_anything_missing_ends_as_skipped(system, past):
    run_id, state = hours(system, NAME)[ago(3)]
    assert state == "success"
    states = system.states(NAME, run_id)
    # It may or may not announce what concurrent runs have published, depending on their order.
    assert states.pop("announce") in {"skipped", "success"}
    assert states == {"plan": "skipped", "write": "skipped", "advance": "skipped"}


def test_a_poison_range_is_skipped_on_record_and_filled_later_by_a_backfill(system, past):
    """The hour has had its run. The backfill is started by Airflow's command line, without `replace`: loaded rows stay unchanged."""
    records.create(system.bootstrap, name="poisoned", partitions=2)
    moment = round((ago(1) + timedelta(minutes=5)).timestamp() * 1000)
    values = [records.record(n) for n in range(20)]
    values[14] = values[14].replace("n14", "poison")
    sent = records.produce(system.bootstrap, "poisoned", values, partitions=2, timestamp_ms=moment)
    system.airflow.unpause("poisoned")
    run_id, _ = system.wait(lambda: hours(system, "poisoned").get(ago(1)), "the scheduled run")
    assert system.airflow.finished("poisoned", run_id) == "failed"
    [failed] = system.batches("poisoned")

    said = command(system, "tideline", "skip", "poisoned", "poisoned/0 [7, 8)", "--reason", POISON)
    assert f"batch {failed}: abandoned" in said
    system.airflow.clear("poisoned", run_id)
    system.succeed("poisoned", run_id)
    assert system.output("poisoned") == decoded({place: value for place, value in sent.items() if place != (0, 7)})
    assert system.heads("poisoned") == [10, 10]
    assert holes(system, "poisoned") == [(0, 7, 8, "skipped", POISON, WHO)]
    assert decisions(system, "poisoned") == [("abandon", POISON), ("skip", POISON)]

    before = versions(system, "poisoned")
    (system.folder / "pipelines" / "poisoned" / "transform.py").unlink()
    one = ago(1).isoformat()
    interval = ("--from-date", one, "--to-date", one)
    command(
        system, "airflow", "backfill", "create", "--dag-id", "poisoned", *interval, "--reprocess-behavior", "completed"
    )
    system.wait(lambda: holes(system, "poisoned") == [], "the hole to be filled", seconds=300)
    system.succeed("poisoned", run_id)
    assert system.output("poisoned") == decoded(sent)
    assert before <= versions(system, "poisoned")
    assert decisions(system, "poisoned") == [("abandon", POISON), ("skip", POISON)]


def versions(system: System, name: str) -> set[tuple]:
    """Return each row with the transaction and the place in which it was written."""
    return set(system.rows(f"SELECT kafka_partition, kafka_offset, xmin::text, ctid::text FROM e2e.{name}"))


def test_a_loaded_hour_is_replaced_by_a_backfill_that_says_so_and_why(system, past):
    [old] = batches_of(system, ago(2))
    before = versions(system, NAME)
    backfill(system, NAME, ago(2), ago(2), reprocess="completed", replace=True, reason="prices were wrong")
    system.wait(lambda: are_over(system, NAME, [ago(2)]), "the run to end", seconds=300)
    system.succeed(NAME, hours(system, NAME)[ago(2)][0])
    [(new, found)] = [entry for entry in batches_of(system, ago(2)).items() if entry[0] != old]
    assert found == ("replay", {0: (5, 10), 1: (5, 10)})
    replaced = before - versions(system, NAME)
    assert {row[:2] for row in replaced} == set(past.sent[ago(2)])
    assert (system.batches(NAME)[old], system.batches(NAME)[new]) == ("superseded", "advanced")
    assert system.heads(NAME) == [15, 15]
    why = "SELECT DISTINCT action, detail->>'reason' FROM tideline.event WHERE batch_id = %s AND action = 'plan'"
    assert system.rows(why, new) == [("plan", "prices were wrong")]
