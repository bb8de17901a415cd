"""The DAG `upkeep`: one task for each pipeline, which does not depend on the others."""

import pytest


@pytest.fixture(scope="module")
def run_id(system, packets) -> str:
    """Let the schedule start a run; return it after its end."""
    found = system.scheduled("upkeep")
    assert system.airflow.finished("upkeep", found) == "failed"
    return found


def test_upkeep_tidies_up_after_each_pipeline_although_a_declaration_is_broken(system, run_id):
    states = system.states("upkeep", run_id)
    assert set(states) == {folder.name for folder in (system.folder / "pipelines").iterdir()}
    assert {name for name, state in states.items() if state != "success"} == {"broken"}
    assert "impressions: nothing to do" in system.log("upkeep", run_id, "impressions")
    assert "broken/pipeline.yaml:3: retires: unknown key" in system.log("upkeep", run_id, "broken")


def test_upkeep_sends_the_numbers_of_each_pipeline_also_of_one_that_runs_no_more(run_id, packets):
    assert packets.of("impressions", "tideline.declaration_valid")[-1].value == 1
    assert packets.of("broken", "tideline.declaration_valid")[-1].value == 0
