"""The trigger form of a pipeline's DAG, and commands that start its runs: what `plan` makes of them, and hands over.

Nothing is written, because the pool of these pipelines has no slots: for what follows see test_unfinished.py, test_backfill.py and the tutorials.
"""

import json
from dataclasses import dataclass
from urllib.parse import unquote

import pytest

import loaded_by_hand
from operator_acts import command
from system import System

NAME = "asked"
WHY = "prices were wrong"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A loaded batch of twenty offsets in each of two partitions, and runs that ask for some of them again."""

    loaded: int
    said: dict
    """What the command has said that replays the batch while the DAG was paused."""
    by_command: list[int]
    """The batches that its run has handed over."""
    ranges: str
    wrong: str
    nothing: str


@pytest.fixture(scope="module")
def asked(system) -> Asked:
    system.fill(NAME, 40, partitions=2)
    [loaded] = loaded_by_hand.load(system, NAME)
    command_line = ("replay", NAME, "--batch", str(loaded), "--reason", "to see it work", "--json")
    [said] = json.loads(command(system, "tideline", *command_line))["runs"]
    given = {"load": "ranges", "ranges": [f"{NAME}/0 [0, 3)", f"{NAME}/1 [1, 2)"]}
    nothing = system.start(NAME, **given)  # and switch the DAG on
    ranges = system.airflow.trigger(NAME, **given, replace=True, reason=WHY)
    wrong = system.airflow.trigger(
        NAME, load="ranges", ranges=[f"{NAME}/0 [9, 3)", "all"], replace=True, batch_id=7, until="2026-11-21T14:00:00Z"
    )
    by_command = system.plan_only(NAME, unquote(said["url"].rpartition("/")[2]))
    system.plan_only(NAME, ranges)
    assert [system.airflow.finished(NAME, run_id) for run_id in (nothing, wrong)] == ["success", "failed"]
    return Asked(loaded=loaded, said=said, by_command=by_command, ranges=ranges, wrong=wrong, nothing=nothing)


def facts(system: System, batch_id: int) -> tuple[str, str]:
    """Return kind and reason of a batch."""
    [row] = system.rows("SELECT kind::text, reason FROM tideline.batch WHERE batch_id = %s", batch_id)
    return row


def test_ranges_are_planned_as_they_are_named_with_the_reason_that_was_given(system, asked):
    [batch_id] = system.planned(NAME, asked.ranges)
    assert facts(system, batch_id) == ("replay", WHY)
    assert system.ranges(batch_id) == {0: (0, 3), 1: (1, 2)}


def test_what_is_loaded_is_left_alone_and_the_log_says_how_to_load_it_again(system, asked):
    assert system.states(NAME, asked.nothing)["plan"] == "skipped"
    log = system.log(NAME, asked.nothing, "plan")
    assert f"{NAME}/0 [0, 3): loaded by batch {asked.loaded}; say `replace` to load it again" in log


def test_a_replay_by_command_waits_for_its_paused_dag_and_is_handed_its_batch(system, asked):
    assert asked.said["dag_is_paused"] is True
    assert asked.by_command == [asked.said["batch_id"]]
    assert facts(system, asked.said["batch_id"]) == ("replay", "to see it work")
    assert system.ranges(asked.said["batch_id"]) == system.ranges(asked.loaded)


def test_a_run_writes_only_where_its_pool_has_a_slot(system, asked):
    assert system.airflow.tasks(NAME, asked.ranges)["write"]["pool"] == "closed"
    assert system.attempts(NAME) == [(1, "published")]  # that of the batch that was loaded by hand


def test_a_wrong_combination_fails_at_once_with_every_mistake(system, asked):
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
    assert {asked.nothing, asked.ranges, asked.wrong} <= set(found)
    assert len(found) == len(set(found)) > 2


# Rewinds -------------------------------------------------------------------------------------------------------------------------

STATEFUL = "rewound"


@dataclass(frozen=True, kw_only=True)
class Rewound:
    """Four batches that were folded, the runs that rewind the last two, and their batches."""

    batches: list[int]
    dry: str
    run: str
    planned: list[int]
    """What the run has handed over at first."""
    cleared: list[int]
    """What it has handed over after it was cleared."""
    log: str
    """The log of its first plan."""


@pytest.fixture(scope="module")
def rewound(system) -> Rewound:
    system.fill(STATEFUL, 20)
    batches = loaded_by_hand.fold(system, STATEFUL)
    system.prepare(
        f"CREATE SCHEMA IF NOT EXISTS e2e; CREATE TABLE e2e.{STATEFUL} AS"
        f" SELECT batch_id AS tideline_batch, row FROM tideline.batch, generate_series(1, 5) row WHERE pipeline = '{STATEFUL}'"
    )
    dry = system.run(STATEFUL, load="rewind", to_batch=batches[1], dry_run=True, reason="what would happen?")
    assert left(system) == batches
    run = system.airflow.trigger(STATEFUL, load="rewind", to_batch=batches[1], reason=WHY)
    planned = system.plan_only(STATEFUL, run)
    log = system.log(STATEFUL, run, "plan")
    system.airflow.clear(STATEFUL, run)
    cleared = system.plan_only(STATEFUL, run)
    return Rewound(batches=batches, dry=dry, run=run, planned=planned, cleared=cleared, log=log)


def left(system: System) -> list[int]:
    """Return the batches whose rows are in the output."""
    rows = system.rows(f"SELECT DISTINCT tideline_batch FROM e2e.{STATEFUL} ORDER BY 1")
    return [batch_id for (batch_id,) in rows]


def test_a_dry_run_says_what_would_be_undone_and_loads_nothing(system, rewound):
    assert system.states(STATEFUL, rewound.dry)["plan"] == "skipped"
    third, fourth = rewound.batches[2:]
    log = system.log(STATEFUL, rewound.dry, "plan")
    assert f"batches {third}, {fourth} would be undone, with 10 rows of the output (a dry run)" in log
    assert "nothing to load; a dry run, which has changed nothing" in log


def test_the_run_that_rewinds_says_what_it_has_undone_and_gets_it_to_load_again(system, rewound):
    third, fourth = rewound.batches[2:]
    assert f"batches {third}, {fourth} are undone, with 10 rows of the output" in rewound.log
    assert left(system) == rewound.batches[:2]
    assert [system.ranges(batch_id) for batch_id in rewound.planned] == [{0: (10, 15)}, {0: (15, 20)}]


def test_the_history_has_the_run_and_the_reason(system, rewound):
    rewinds = system.rows("SELECT to_batch, reason, decided_by FROM tideline.rewind WHERE pipeline = %s", STATEFUL)
    assert rewinds == [(rewound.batches[1], WHY, f"{STATEFUL} {rewound.run} plan try 1")]


def test_a_run_that_is_cleared_does_not_rewind_again(system, rewound):
    assert rewound.cleared == rewound.planned
    assert "this run has rewound before" in system.log(STATEFUL, rewound.run, "plan")


def test_a_pipeline_without_a_state_does_not_offer_it(system):
    with pytest.raises(Exception, match="'rewind' is not one of"):
        system.start(NAME, load="rewind", to_batch=1, reason="why not")
