"""The trigger form of a pipeline's DAG: each kind of request once. For rejected records see test_rejects.py."""

from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest

import records
from declared_pipelines import HOUR, LAST_TICK
from system import System, decoded

NAME = "asked"
OLD, MIDDLE, NEW = LAST_TICK - 3 * HOUR, LAST_TICK - 2 * HOUR, LAST_TICK - HOUR
"""The beginning of the records' hours; the pipeline's streams begin with the last one."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The records by hour, and the run of each form."""

    sent: dict[datetime, dict]
    new: str
    window: str
    ranges: str
    batch: str
    wrong: str


@pytest.fixture(scope="module")
def asked(system) -> Asked:
    records.create(system.bootstrap, name=NAME, partitions=2)
    sent = {hour: produce(system, hour, 10 * n) for n, hour in enumerate((OLD, MIDDLE, NEW, LAST_TICK))}
    new = system.start(NAME, load="new records", until=LAST_TICK.isoformat())
    window = system.start(NAME, load="a window", window_start=MIDDLE.isoformat(), window_end=NEW.isoformat())
    ranges = system.start(NAME, load="ranges", ranges=[f"{NAME}/0 [0, 3)", f"{NAME}/1 [1, 2)"])
    wrong = system.start(
        NAME, load="ranges", ranges=[f"{NAME}/0 [9, 3)", "all"], replace=True, batch_id=7, until=NEW.isoformat()
    )
    for run_id in (new, window, ranges):
        system.succeed(NAME, run_id)
    batch = system.run(NAME, load="a batch", batch_id=system.planned(NAME, new)[0])
    return Asked(sent=sent, new=new, window=window, ranges=ranges, batch=batch, wrong=wrong)


def produce(system: System, hour: datetime, first: int) -> dict:
    """Send five records to each partition."""
    moment = round((hour + timedelta(minutes=5)).timestamp() * 1000)
    values = map(records.record, range(first, first + 10))
    return records.produce(system.bootstrap, NAME, values, partitions=2, timestamp_ms=moment)


def planned(system: System, run_id: str) -> tuple[str, dict]:
    """Return kind and ranges of the one batch of a run."""
    [batch_id] = system.planned(NAME, run_id)
    [(kind,)] = system.rows("SELECT kind::text FROM tideline.batch WHERE batch_id = %s", batch_id)
    return kind, system.ranges(batch_id)


def test_new_records_are_loaded_from_the_heads_up_to_the_moment_given(system, asked):
    assert planned(system, asked.new) == ("live", {0: (10, 15), 1: (10, 15)})


def test_a_window_is_loaded_by_the_time_of_its_records(system, asked):
    assert planned(system, asked.window) == ("backfill", {0: (5, 10), 1: (5, 10)})


def test_ranges_are_loaded_as_they_are_named(system, asked):
    assert planned(system, asked.ranges) == ("backfill", {0: (0, 3), 1: (1, 2)})


def test_what_was_requested_is_loaded_once_and_nothing_else(system, asked):
    named = {place: value for place, value in asked.sent[OLD].items() if place in {(0, 0), (0, 1), (0, 2), (1, 1)}}
    assert system.output(NAME) == decoded(named | asked.sent[MIDDLE] | asked.sent[NEW])
    assert system.heads(NAME) == [15, 15]


def test_a_batch_that_is_loaded_is_left_alone_and_the_log_says_how_to_load_it_again(system, asked):
    assert set(system.states(NAME, asked.batch).values()) == {"skipped"}
    [batch_id] = system.planned(NAME, asked.new)
    log = system.log(NAME, asked.batch, "plan")
    assert f"{NAME}/0 [10, 15): loaded by batch {batch_id}; say `replace` to load it again" in log


def test_a_wrong_combination_fails_at_once_with_every_mistake(system, asked):
    assert system.airflow.finished(NAME, asked.wrong) == "failed"
    assert system.airflow.tasks(NAME, asked.wrong)["plan"]["try_number"] == 1
    log = system.log(NAME, asked.wrong, "plan")
    assert "has 5 mistakes" in log
    for mistake in (
        "`until` is not used to load ranges",
        "`batch_id` is not used to load ranges",
        "`reason` is missing",
        f"`ranges`: `{NAME}/0 [9, 3)`",
        "`ranges`: expected a range like `ads/3 [100, 200)`, found `all`",
    ):
        assert mistake in log


def test_a_list_of_several_pages_is_read_to_its_end(system, asked):
    runs = system.airflow.listed(f"dags/{NAME}/dagRuns", "dag_runs", order_by="id", page=2)
    found = [run["dag_run_id"] for run in runs]
    assert {asked.new, asked.window, asked.ranges, asked.wrong} <= set(found)
    assert len(found) == len(set(found)) > 2
