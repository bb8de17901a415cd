"""The time limit of the task `write` in Airflow: the sum of its batches' limits."""

import json
from datetime import timedelta

import pytest
from airflow.sdk.exceptions import AirflowFailException

from tideline.airflow.tasks import write

DECLARATION = {
    "description": "A test",
    "source": {"bootstrap_servers": "nowhere:9092", "topics": ["t"], "value": {"format": "text"}},
    "sink": {"table": "s.t"},
    "limits": {"timeout_minutes": 30},
}


@pytest.fixture
def rendered(tmp_path, monkeypatch):
    """Return the task of the DAG `replay`, whose pipeline only the form names, as Airflow has rendered it."""
    monkeypatch.setenv("TIDELINE_PIPELINES", str(tmp_path))
    folder = tmp_path / "loads"
    folder.mkdir()
    (folder / "pipeline.yaml").write_text(json.dumps(DECLARATION))
    (folder / "target.sql").write_text("SELECT 1")

    def render(pipeline, batches):
        task = write("{{ params.pipeline }}")
        task.application_args = [f"--pipeline={pipeline}", f"--batches={batches}", "--dag-id=replay", "--run-id=a=b"]
        return task

    return render


@pytest.mark.parametrize(("batches", "minutes"), [("7", 2 * 30 + 15), ("7,8,9", 4 * 30 + 15)])
def test_the_task_may_take_what_its_batches_may_take_and_once_more(rendered, batches, minutes):
    task = rendered("loads", batches)
    assert task.execution_timeout is None
    task.pre_execute({})
    assert task.execution_timeout == timedelta(minutes=minutes)


def test_a_pipeline_that_is_gone_fails_the_task_without_retries(rendered):
    with pytest.raises(AirflowFailException, match="expected a folder for pipeline 'gone'"):
        rendered("gone", "7").pre_execute({})
