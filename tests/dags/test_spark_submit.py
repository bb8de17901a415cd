"""The task `write` in Airflow: its time limit, and the Spark connection and properties of its pipeline."""

import json
import os
import re
from datetime import timedelta
from importlib.resources import files
from types import SimpleNamespace

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from tideline import environment
from tideline.airflow import secrets_backends
from tideline.airflow.spark_submit import write
from tideline.errors import FatalError, NeedsOperatorError, RetryableError

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
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_EU", json.dumps({"conn_type": "spark", "host": "spark://eu", "port": 7077}))

    def render(pipeline, batches="7", **declared):
        folder = tmp_path / "loads"
        folder.mkdir()
        (folder / "pipeline.yaml").write_text(json.dumps(DECLARATION | declared))
        (folder / "target.sql").write_text("SELECT 1")
        task = write("{{ params.pipeline }}")
        task.application_args = [f"--pipeline={pipeline}", f"--batches={batches}", "--dag-id=replay", "--run-id=a=b"]
        return task

    return render


def command(task) -> list[str]:
    """Return the command line that Airflow's operator would run."""
    line: list[str] = task._get_hook()._build_spark_submit_command(task.application)
    return line


@pytest.mark.parametrize(("batches", "minutes"), [("7", 2 * 30 + 15), ("7,8,9", 4 * 30 + 15)])
def test_the_task_may_take_what_its_batches_may_take_and_once_more(rendered, batches, minutes):
    task = rendered("loads", batches)
    assert task.execution_timeout is None
    task.pre_execute({})
    assert task.execution_timeout == timedelta(minutes=minutes)


def test_a_pipeline_that_is_gone_fails_the_task_without_retries(rendered):
    with pytest.raises(AirflowFailException, match="expected a folder for pipeline 'gone'"):
        rendered("gone").pre_execute({})


def test_connection_and_properties_are_those_of_the_pipeline_that_the_form_names(rendered):
    properties = {
        "spark.executor.memory": "2g",
        "spark.sql.shuffle.partitions": 3,
        "spark.x": True,
        "spark.y": "{{ ds }}",
    }
    task = rendered("loads", spark={"connection": "spark_eu", "properties": properties})
    task.pre_execute({})
    line = command(task)
    assert line[line.index("--master") + 1] == "spark://eu:7077"
    assert [line[at + 1] for at, word in enumerate(line) if word == "--conf"] == [
        "spark.executor.memory=2g",
        "spark.sql.shuffle.partitions=3",
        "spark.x=true",
        "spark.y={{ ds }}",
    ]


def test_without_a_declaration_they_are_those_of_the_deployment(rendered):
    task = rendered("loads")
    task.pre_execute({})
    line = command(task)
    assert line[line.index("--master") + 1] == "local[2]"
    assert "--conf" not in line


def test_a_connection_that_airflow_does_not_have_fails_the_task_without_retries(rendered):
    """Airflow's operator would submit the job to YARN."""
    task = rendered("loads", spark={"connection": "spark_us"})
    expected = r"pipeline loads, key spark\.connection: Airflow has no connection 'spark_us'"
    with pytest.raises(AirflowFailException, match=expected):
        task.pre_execute({})


@pytest.mark.parametrize(("mode", "scheme"), [("cluster", "local://"), ("client", "")])
def test_on_kubernetes_a_driver_in_a_pod_takes_the_job_from_its_image(rendered, monkeypatch, mode, scheme):
    connection = {"conn_type": "spark", "host": "k8s://https://api", "extra": {"deploy-mode": mode, "namespace": "n"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    task = rendered("loads")
    task.pre_execute({})
    line = command(task)
    assert f"{scheme}{files('tideline.spark_jobs') / 'write_batches.py'}" in line
    assert line[line.index("--deploy-mode") + 1] == mode


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (f"Error code is: {FatalError.exit_code}.", AirflowFailException),
        (f"Error code is: 0. Kubernetes spark exit code is: {NeedsOperatorError.exit_code}", AirflowFailException),
        (f"Error code is: 1. Kubernetes spark exit code is: {FatalError.exit_code}", AirflowFailException),
        (f"Error code is: 0. Kubernetes spark exit code is: {FatalError.exit_code}1", AirflowException),
        (f"Error code is: {RetryableError.exit_code}.", AirflowException),
    ],
)
def test_an_error_that_a_retry_cannot_mend_is_known_by_its_exit_code(rendered, monkeypatch, said, error):
    monkeypatch.setenv("TIDELINE_LEDGER_URL", "postgresql://db/w")

    def fail(_task, _context):
        raise AirflowException(f"Cannot execute: spark-submit. {said}")

    monkeypatch.setattr(SparkSubmitOperator, "execute", fail)
    task = rendered("loads")
    task.pre_execute({})
    with pytest.raises(AirflowException) as caught:
        task.execute({})
    assert type(caught.value) is error


SECURED = DECLARATION["source"] | {
    "security": {
        "protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_username": "tideline",
        "sasl_password": {"env": "ORDERS_PASSWORD"},
    }
}


@pytest.fixture
def at_submit(monkeypatch):
    """Return the environments of the jobs that the task starts. Airflow keeps secrets, and this process has none."""
    monkeypatch.setattr(environment, "_airflow", environment._Airflow())
    monkeypatch.setattr(secrets_backends, "_found", {})
    for name in ("TIDELINE_LEDGER_URL", "TIDELINE_WRITER_URL", "TIDELINE_STAGER_URL"):
        monkeypatch.delenv(name, raising=False)
    found: list[dict[str, str]] = []
    monkeypatch.setattr(SparkSubmitOperator, "execute", lambda _task, _context: found.append(dict(os.environ)))
    secrets_backends.use()
    return found


def test_the_job_gets_the_urls_of_its_own_role_and_of_executors_from_airflow(rendered, at_submit, monkeypatch):
    for role in ("LEDGER", "WRITER", "STAGER", "READER"):
        monkeypatch.setenv(f"AIRFLOW_VAR_TIDELINE_{role}_URL", f"postgresql://{role.lower()}@db/w")
    task = rendered("loads")
    task.pre_execute({})
    task.execute({})
    given = {name: value for name, value in at_submit[0].items() if re.fullmatch(r"TIDELINE_[A-Z]+_URL", name)}
    own, of_executors = "postgresql://writer@db/w", "postgresql://stager@db/w"
    assert given == {"TIDELINE_LEDGER_URL": own, "TIDELINE_STAGER_URL": of_executors}
    assert {"postgresql://ledger@db/w", "postgresql://reader@db/w"}.isdisjoint(at_submit[0].values())


def test_a_secret_that_airflow_keeps_reaches_the_job_only_by_its_environment(rendered, at_submit, monkeypatch):
    """Airflow's argument for this, `env_vars`, is stored as a rendered template, and is on the command line with YARN and Kubernetes."""
    monkeypatch.setenv("AIRFLOW_VAR_TIDELINE_LEDGER_URL", "postgresql://me:QXZJV7@db/w")
    monkeypatch.setenv("AIRFLOW_VAR_ORDERS_PASSWORD", "VZQX77J")
    task = rendered("loads", source=SECURED)
    task.pre_execute({})
    task.execute({})
    assert at_submit[0]["TIDELINE_LEDGER_URL"] == "postgresql://me:QXZJV7@db/w"
    assert at_submit[0]["ORDERS_PASSWORD"] == "VZQX77J"
    fields = [str(getattr(task, name)) for name in task.template_fields]
    assert [text for text in (*command(task), *fields) if "QXZJV7" in text or "VZQX77J" in text] == []
    assert not {"TIDELINE_LEDGER_URL", "ORDERS_PASSWORD"} & set(os.environ)


def test_a_plan_that_was_marked_as_success_before_it_ran_fails_the_task_in_words(rendered):
    [given] = [argument for argument in write("loads").application_args if argument.startswith("--batches=")]
    nothing, some = (
        write("loads").render_template(given, {"ti": SimpleNamespace(xcom_pull=lambda task_ids, found=found: found)})
        for found in (None, [7, 8])
    )
    assert (nothing, some) == ("--batches=", "--batches=7,8")
    expected = "loads: expected batches from the task `plan` of the run a=b of replay, found none: .* marked as success by hand"
    with pytest.raises(AirflowFailException, match=expected):
        rendered("loads", batches="").pre_execute({})
