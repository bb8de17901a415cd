"""The DAG files as Airflow parses them: in a process without the deployment's environment, where every connection fails."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tideline import pipelines
from tideline.settings import PROJECT

BY_HAND = {
    "description": "Only by hand",
    "schedule": None,
    "retries": 5,
    "retry_delay_seconds": 7,
    "source": {"bootstrap_servers": {"env": "NOBODY_SETS_THIS"}, "topics": ["t"], "value": {"format": "text"}},
    "sink": {"table": "s.t"},
}
BROKEN = {"description": "Neither source nor sink"}


@pytest.fixture(scope="module")
def parsed(tmp_path_factory) -> dict:
    """What comes out for the shipped pipelines, one without a schedule, and one with mistakes."""
    folder = tmp_path_factory.mktemp("pipelines")
    for shipped in pipelines.declared():
        (folder / shipped.name).symlink_to(shipped.folder)
    declare(folder / "by_hand", BY_HAND)
    declare(folder / "broken", BROKEN)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "TIDELINE_"))}
    places = {"AIRFLOW_HOME": str(tmp_path_factory.mktemp("airflow")), "TIDELINE_PIPELINES": str(folder)}
    command = [sys.executable, str(Path(__file__).with_name("parse.py")), str(PROJECT / "dags")]
    done = subprocess.run(command, check=False, env=inherited | places, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found: dict = json.loads(done.stdout.splitlines()[-1])
    return found


def declare(folder: Path, declaration: dict) -> None:
    """JSON is YAML."""
    folder.mkdir()
    (folder / "pipeline.yaml").write_text(json.dumps(declaration))
    (folder / "target.sql").write_text("SELECT 1")


def test_dag_files_parse_without_errors_warnings_or_connections(parsed):
    """A warning here is one about imports that the next Airflow will not have."""
    assert (parsed["errors"], parsed["warnings"]) == ({}, {})


def test_every_declared_pipeline_has_one_dag(parsed):
    assert set(parsed["dags"]) == {*(shipped.name for shipped in pipelines.declared()), "by_hand", "broken"}


def test_every_dag_plans_then_writes_then_advances(parsed):
    for dag in parsed["dags"].values():
        assert {name: task["then"] for name, task in dag["tasks"].items()} == {
            "plan": ["write"],
            "write": ["advance"],
            "advance": [],
        }


def test_a_schedule_gives_runs_an_interval_and_never_catches_up_by_itself(parsed):
    dag = parsed["dags"]["impressions"]
    assert (dag["schedule"], dag["with_interval"], dag["catchup"]) == ("0 * * * *", True, False)


def test_a_pipeline_without_a_schedule_runs_only_by_hand(parsed):
    dag = parsed["dags"]["by_hand"]
    assert (dag["schedule"], dag["with_interval"]) == (None, False)


def test_retries_are_those_of_the_declaration(parsed):
    tasks = parsed["dags"]["by_hand"]["tasks"].values()
    assert {(task["retries"], task["retry_delay_seconds"]) for task in tasks} == {(5, 7.0)}


def test_two_runs_write_in_turns(parsed):
    assert {dag["tasks"]["write"]["at_once"] for dag in parsed["dags"].values()} == {1}


def test_dags_are_described_tagged_and_take_until(parsed):
    dag = parsed["dags"]["by_hand"]
    assert (dag["description"], dag["tags"], dag["params"]) == ("Only by hand", ["tideline"], ["until"])


def test_a_broken_declaration_keeps_a_dag_that_says_so_and_is_not_retried(parsed):
    dag = parsed["dags"]["broken"]
    assert dag["tags"] == ["broken declaration", "tideline"]
    assert "mistakes" in dag["description"]
    assert {task["retries"] for task in dag["tasks"].values()} == {0}
