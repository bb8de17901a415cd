"""The DAG files as Airflow parses them: in a process without the deployment's environment, where every connection fails."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from tideline.airflow.form_choices import INGEST_FIELDS, REPLAY_FIELDS, REWIND_FIELDS
from tideline.airflow.trigger_form import Triggered, ingest
from tideline.declaration import pipelines
from tideline.settings import PROJECT

BY_HAND = {
    "description": "Only by hand",
    "schedule": None,
    "retries": 5,
    "retry_delay_seconds": 7,
    "source": {"bootstrap_servers": {"env": "NEVER_SET"}, "topics": ["t"], "value": {"format": "text"}},
    "sink": {"table": "s.t"},
}
NOTIFY = {"notifier": "a.package.that.is.not.Installed", "arguments": {"to": "oncall"}}
OWNED = BY_HAND | {
    "owner": "data-platform",
    "tags": ["ads"],
    "pool": "kafka",
    "spark": {"connection": "spark-eu", "properties": {"spark.executor.memory": "2g"}},
    "notify": NOTIFY,
}
BROKEN = {"description": "Neither source nor sink", "notify": NOTIFY}
DECLARED = {
    "by_hand": BY_HAND,
    "broken": BROKEN,
    "owned": OWNED,
    "waking": BY_HAND | {"schedule": "5 * * * *", "wake_on_records": True},
    "waking_only": BY_HAND | {"wake_on_records": True},
    # Names that no pipeline may have: each must break only its own DAG.
    "replay": BY_HAND,
    "self": BY_HAND,
    "two words": BY_HAND,
}
SHIPPED = {path.parent.name for path in (PROJECT / "include" / "pipelines").glob("*/pipeline.yaml")}
INGEST = {
    *SHIPPED,
    "by_hand",
    "broken",
    "owned",
    "waking",
    "waking_only",
    "replay_declaration",
    "self",
    "two_words",
}
STATEFUL = {"sessions", "offer_anomalies"}
COMPANY = "ads_baseline"
"""A DAG of the ad company in a file of its own. It depends on no declaration."""
WRONG = {"broken", "replay_declaration", "self", "two_words"}


@pytest.fixture(scope="module")
def parsed(tmp_path_factory) -> dict:
    """Parse the shipped pipelines, some with other settings, and some with mistakes."""
    folder = tmp_path_factory.mktemp("pipelines")
    for shipped in pipelines.declared():
        (folder / shipped.name).symlink_to(shipped.folder)
    for name, declaration in DECLARED.items():
        declare(folder / name, declaration)
    return parse(folder, tmp_path_factory.mktemp("airflow"))


def parse(folder: Path, home: Path, **variables: str) -> dict:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "TIDELINE_"))}
    places = {"AIRFLOW_HOME": str(home), "TIDELINE_PIPELINES": str(folder), **variables}
    command = [sys.executable, str(Path(__file__).with_name("parse.py")), str(PROJECT / "dags")]
    done = subprocess.run(command, check=False, env=inherited | places, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found: dict = json.loads(done.stdout.splitlines()[-1])
    found["company"] = found["dags"].pop(COMPANY)
    return found


def declare(folder: Path, declaration: dict) -> None:
    """Write the declaration as JSON, which is YAML."""
    folder.mkdir()
    (folder / "pipeline.yaml").write_text(json.dumps(declaration))
    (folder / "target.sql").write_text("SELECT 1")


@pytest.fixture(scope="module")
def ingesting(parsed) -> dict:
    """Return the DAGs of the pipelines."""
    return {name: dag for name, dag in parsed["dags"].items() if name not in {"replay", "upkeep"}}


def test_dag_files_parse_without_errors_warnings_or_connections(parsed):
    """A warning here is one about imports that the next Airflow will not have."""
    assert (parsed["errors"], parsed["warnings"]) == ({}, {})


def test_every_declared_pipeline_has_one_dag_beside_those_for_all(parsed):
    assert set(parsed["dags"]) == INGEST | {"replay", "upkeep"}


def test_a_task_that_is_about_to_run_parses_its_own_declaration_alone(tmp_path):
    for name, declaration in DECLARED.items():
        declare(tmp_path / name, declaration)
    found = parse(tmp_path, tmp_path / ".airflow", _AIRFLOW_PARSING_CONTEXT_DAG_ID="replay_declaration")
    assert (set(found["dags"]), found["errors"]) == ({"replay_declaration"}, {})


def test_the_baseline_is_computed_each_hour_half_an_hour_after_its_inputs(parsed):
    dag = parsed["company"]
    assert (dag["schedule"], dag["with_interval"], dag["catchup"]) == ("30 * * * *", True, False)
    assert {name: task["retries"] for name, task in dag["tasks"].items()} == {"compute": 2}
    assert "UNIQUE (hour)" in dag["doc"]


def test_dags_that_load_plan_then_write_then_advance_and_announce(parsed, ingesting):
    """Announcing does not decide the state of the run: it is a leaf beside `advance`, and `advance` fails if an earlier task has failed."""
    for name, dag in (ingesting | {"replay": parsed["dags"]["replay"]}).items():
        announcing = [] if name in WRONG else ["announce"]
        assert {name: task["then"] for name, task in dag["tasks"].items()} == {
            "plan": ["write"],
            "write": ["advance", *announcing],
            "advance": [],
        } | {leaf: [] for leaf in announcing}
        rules = {name: task["trigger_rule"] for name, task in dag["tasks"].items()}
        assert rules == dict.fromkeys(rules, "all_success") | dict.fromkeys(announcing, "all_done")


def test_a_schedule_gives_runs_an_interval_and_never_catches_up_by_itself(parsed):
    dag = parsed["dags"]["impressions"]
    assert (dag["schedule"], dag["with_interval"], dag["catchup"]) == ("0 * * * *", True, False)
    assert dag["assets"] == []


def test_a_pipeline_without_a_schedule_runs_only_by_hand(parsed):
    dag = parsed["dags"]["by_hand"]
    assert (dag["schedule"], dag["with_interval"], dag["assets"]) == (None, False, [])


def test_new_records_wake_a_pipeline_that_asks_for_it_beside_its_schedule_or_alone(parsed):
    for name, schedule in [("waking", "5 * * * *"), ("waking_only", None)]:
        dag = parsed["dags"][name]
        assert (dag["schedule"], dag["with_interval"], dag["catchup"]) == (schedule, schedule is not None, False)
        [asset] = dag["assets"]
        assert (asset["name"], asset["uri"]) == (f"{name} records", f"tideline://{name}/records")


def test_hours_of_every_scheduled_pipeline_can_be_backfilled(parsed):
    names = ("impressions", "waking", "by_hand", "waking_only", "replay")
    assert {name for name in names if parsed["dags"][name]["backfillable"]} == {"impressions", "waking"}


def test_a_watcher_is_known_by_the_pipelines_name_and_holds_nothing_else(parsed):
    """Airflow stores class and arguments, and treats two triggers as one if these are equal."""
    triggers = {
        name: trigger for name in ("waking", "waking_only") for trigger in parsed["dags"][name]["assets"][0]["triggers"]
    }
    assert triggers == {
        name: ["tideline.airflow.trigger.NewRecordsTrigger", {"pipeline": name}] for name in ("waking", "waking_only")
    }


def test_runs_of_a_pipeline_that_is_woken_do_not_pile_up(parsed):
    assert {name: parsed["dags"][name]["runs_at_once"] for name in ("waking", "waking_only", "by_hand")} == {
        "waking": 2,
        "waking_only": 2,
        "by_hand": 16,
    }


def test_retries_are_those_of_the_declaration(parsed):
    tasks = parsed["dags"]["by_hand"]["tasks"].values()
    assert {(task["retries"], task["retry_delay_seconds"]) for task in tasks} == {(5, 7.0)}


def test_two_runs_write_in_turns(parsed, ingesting):
    assert {dag["tasks"]["write"]["at_once"] for dag in [*ingesting.values(), parsed["dags"]["replay"]]} == {1}


def test_dags_are_described_and_tagged(parsed):
    assert (parsed["dags"]["by_hand"]["description"], parsed["dags"]["by_hand"]["tags"]) == (
        "Only by hand",
        ["tideline"],
    )
    assert {name for name, dag in parsed["dags"].items() if not dag["description"] or not dag["doc"]} == set()


def test_owner_and_tags_are_those_of_the_declaration(parsed):
    owned, unowned = parsed["dags"]["owned"], parsed["dags"]["by_hand"]
    assert {task["owner"] for task in owned["tasks"].values()} == {"data-platform"}
    assert {task["owner"] for task in unowned["tasks"].values()} == {"airflow"}
    assert owned["tags"] == ["ads", "tideline"]


def test_only_the_task_that_writes_takes_a_slot_of_the_declared_pool(parsed):
    for name, pool in [("owned", "kafka"), ("by_hand", "default_pool")]:
        tasks = parsed["dags"][name]["tasks"]
        assert {task_id: task["pool"] for task_id, task in tasks.items()} == dict.fromkeys(tasks, "default_pool") | {
            "write": pool
        }


def test_tasks_notify_where_a_notifier_is_declared_even_if_it_is_not_installed(parsed):
    notifying = {
        name: {task_id for task_id, task in dag["tasks"].items() if task["notifies"]}
        for name, dag in parsed["dags"].items()
    }
    loading = {"plan", "write", "advance"}
    assert {name: tasks for name, tasks in notifying.items() if tasks} == {
        "owned": loading | {"announce"},
        "broken": loading,
        "replay": loading | {"announce"},
        "upkeep": {"owned", "broken"},
    }


def test_a_broken_declaration_keeps_a_dag_that_says_so_and_is_not_retried(parsed, ingesting):
    assert {name for name, dag in ingesting.items() if "broken declaration" in dag["tags"]} == WRONG
    for name in WRONG:
        assert "mistakes" in ingesting[name]["description"]
        assert {task["retries"] for task in ingesting[name]["tasks"].values()} == {0}


def test_events_go_through_an_alias_so_that_there_may_be_any_number_of_them(parsed, ingesting):
    for name, dag in (ingesting | {"replay": parsed["dags"]["replay"]}).items():
        outlets = {name: task["outlets"] for name, task in dag["tasks"].items()}
        announcing = {} if name in WRONG else {"announce": ["AssetAlias"]}
        assert outlets == {"plan": [], "write": [], "advance": ["AssetAlias"]} | announcing


def test_who_announces_may_see_which_events_there_are(parsed):
    """This includes the tasks of the DAGs for all pipelines, but not a declaration with mistakes: its name may be invalid for an asset."""
    right = INGEST - WRONG
    assert parsed["dags"]["impressions"]["tasks"]["announce"]["inlets"] == ["impressions"]
    assert set(parsed["dags"]["replay"]["tasks"]["announce"]["inlets"]) == right
    tasks = parsed["dags"]["upkeep"]["tasks"]
    assert {name: task["inlets"] for name, task in tasks.items()} == {
        name: [name] if name in right else [] for name in INGEST
    }


# Forms ---------------------------------------------------------------------------------------------------------------------------


def test_the_forms_have_the_fields_that_are_read_in_the_order_they_are_shown(parsed, ingesting):
    """Airflow groups fields by section, and keeps their order within one."""
    forms = {name: list(dag["params"]) for name, dag in ingesting.items()}
    assert {name for name, fields in forms.items() if fields != list(INGEST_FIELDS)} == STATEFUL
    assert {name: forms[name] for name in STATEFUL} == {name: [*INGEST_FIELDS, *REWIND_FIELDS] for name in STATEFUL}
    assert list(parsed["dags"]["replay"]["params"]) == list(REPLAY_FIELDS)
    assert parsed["dags"]["upkeep"]["params"] == {}


def test_every_field_has_a_title_and_a_text(parsed):
    for dag in parsed["dags"].values():
        for name, field in dag["params"].items():
            assert field["title"], name
            assert field["description_md"].endswith("."), name


def test_the_form_that_a_schedule_fills_in_is_valid_and_asks_for_new_records(parsed):
    fields = parsed["dags"]["impressions"]["params"]
    values = {name: field["default"] for name, field in fields.items()}
    for name, value in values.items():
        jsonschema.validate(value, fields[name])
    asked = ingest(Triggered(run_type="asset_triggered", params=values))
    assert (type(asked.request).__name__, asked.reason) == ("NewRecords", None)


def test_a_replay_names_one_of_the_pipelines_and_a_reason_before_it_can_be_triggered(parsed):
    fields = parsed["dags"]["replay"]["params"]
    assert {name for name, field in fields.items() if "default" not in field} == {"pipeline", "reason"}
    assert set(fields["pipeline"]["enum"]) == {*SHIPPED, *DECLARED}


def test_a_replay_runs_for_the_pipeline_that_the_form_names(parsed):
    tasks = parsed["dags"]["replay"]["tasks"]
    assert tasks["plan"]["arguments"] == tasks["advance"]["arguments"] == ["{{ params.pipeline }}"]
    assert "--pipeline={{ params.pipeline }}" in tasks["write"]["arguments"]


# For all -------------------------------------------------------------------------------------------------------------------------


def test_upkeep_has_a_task_for_each_pipeline_that_waits_for_no_other(parsed):
    dag = parsed["dags"]["upkeep"]
    assert {name: task["then"] for name, task in dag["tasks"].items()} == {name: [] for name in INGEST}
    assert dag["tasks"]["two_words"]["arguments"] == ["two words"]
    assert (dag["schedule"], dag["catchup"]) == ("17 3 * * *", False)


def test_replay_and_upkeep_parse_where_no_pipeline_is_declared(tmp_path):
    (tmp_path / "pipelines").mkdir()
    found = parse(tmp_path / "pipelines", tmp_path / "airflow")
    assert (found["errors"], found["warnings"]) == ({}, {})
    assert set(found["dags"]) == {"replay", "upkeep"}
