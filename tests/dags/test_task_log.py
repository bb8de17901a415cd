"""The log of a task says on each line what it is about, where programs collect the lines: as Airflow's supervisor stores them."""

import contextvars
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from structlog.contextvars import get_contextvars

from tideline.airflow import task_log
from tideline.errors import FatalError

LOGGING = """
import logging, structlog, sys
from airflow.sdk._shared.logging.structlog import configure_logging
from tideline.airflow import task_log
configure_logging(json_output=True, log_level="INFO")
structlog.contextvars.bind_contextvars(dag_id="replay", try_number=3)  # as Airflow's task runner does
"""
TASK = (
    LOGGING
    + """
log = logging.getLogger("tideline.airflow.tasks")
task_log.begin("orders")
log.info("begun")
task_log.about([7, 8])
with task_log.of_batch(7):
    log.info("batch 7")
log.info("both")
"""
)
WRITE = (
    LOGGING
    + """
from tideline.airflow.spark_submit import write
task = write("orders")
task.application_args = ["--pipeline=orders", "--batches=7,8", "--run-id=a"]
task.pre_execute({})
task.execute({})
"""
)
"""The task `write`, with a spark-submit that prints what the job would print."""
JOB = """#!{python}
import logging
from tideline import job_log
from tideline.errors import FatalError
print("26/11/24 14:00:00 WARN Utils: a line of Spark's JVM")
job_log.begin("orders")
job_log.about(pipeline="orders", batch=7, attempt=2)
job_log.say("orders batch 7 attempt 2: published 100 %s")
try:
    int("inner")
except ValueError:
    logging.getLogger("tideline.flow.writing").warning("offset %s", 5, exc_info=True)
job_log.say_error(FatalError("orders: wrong", next_step="correct it", entry="declaration"))
print('{{"at": "2026-11-21T14:00:00+00:00", "level": "info", "logger": "tideline.job", "message": "earlier"}}')
print('{{"at": "then", "level": "info", "logger": "x", "message": "a transform that looks like the job"}}')
"""
STORE = """
import structlog, sys
from airflow.sdk.execution_time.supervisor import process_log_messages_from_subprocess
from airflow.sdk.log import logging_processors
log = structlog.wrap_logger(structlog.BytesLogger(sys.stdout.buffer), processors=logging_processors(json_output=True)).bind()
storing = process_log_messages_from_subprocess((log,))
next(storing)
for line in sys.stdin.buffer:
    storing.send(line)
"""
"""Airflow's supervisor: it gets the lines of the task's process, and writes them to the file of the log."""
DECLARATION = {
    "description": "A test",
    "source": {"bootstrap_servers": "nowhere:9092", "topics": ["t"], "value": {"format": "text"}},
    "sink": {"table": "s.t"},
}


def lines_of(code: str, folder: Path, form: str = "json", **more: str) -> list[dict[str, Any]]:
    """Return the lines of a task's process, as Airflow stores them."""
    environment = {**os.environ, "AIRFLOW_HOME": str(folder), "TIDELINE_LOG_FORMAT": form, **more}
    output = ""
    for program in (code, STORE):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=environment,
            input=output,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        output = done.stdout
    return [json.loads(line) for line in output.splitlines()]


@pytest.mark.parametrize(("form", "expected"), [("json", {"pipeline": "orders"}), ("text", {}), ("", {})])
def test_only_programs_get_the_name_of_the_pipeline_on_each_line(monkeypatch, form, expected):
    monkeypatch.setenv("TIDELINE_LOG_FORMAT", form)

    def in_a_task():
        task_log.begin("orders")
        return get_contextvars()

    assert contextvars.Context().run(in_a_task) == expected


def test_airflows_own_log_writes_pipeline_batches_and_try(tmp_path):
    begun, of_one, of_both = lines_of(TASK, tmp_path)
    assert (begun["event"], begun["pipeline"], begun["try_number"]) == ("begun", "orders", 3)
    assert not {"batch", "batches"} & begun.keys()
    assert (of_one["batch"], of_one["batches"], of_one["pipeline"]) == (7, [7, 8], "orders")
    assert (of_both["batches"], "batch" in of_both) == ([7, 8], False)


def test_people_get_no_batches_on_each_line(tmp_path):
    assert not {"pipeline", "batch", "batches"} & set().union(*lines_of(TASK, tmp_path, form="text"))


@pytest.fixture
def spark_submit(tmp_path):
    """Declare a pipeline, and put a spark-submit on the PATH that prints what the job would print. Return the variables."""
    pipeline, programs = tmp_path / "pipelines" / "orders", tmp_path / "bin"
    for folder in (pipeline, programs):
        folder.mkdir(parents=True)
    (pipeline / "pipeline.yaml").write_text(json.dumps(DECLARATION))
    (pipeline / "target.sql").write_text("SELECT 1")
    program = programs / "spark-submit"
    program.write_text(JOB.format(python=sys.executable))
    program.chmod(0o755)
    return {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "TIDELINE_PIPELINES": str(pipeline.parent),
        "TIDELINE_LEDGER_URL": "postgresql://me@nowhere/x",
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[1]"}),
    }


def test_a_line_of_the_job_is_a_line_of_the_task_with_its_own_fields(tmp_path, spark_submit):
    lines = lines_of(WRITE, tmp_path, **spark_submit)
    published = next(line for line in lines if "published" in line["event"])
    assert published["event"] == "orders batch 7 attempt 2: published 100 %s"
    about = ("pipeline", "batch", "attempt", "batches", "logger", "level", "try_number")
    assert [published[key] for key in about] == ["orders", 7, 2, [7, 8], "tideline.job", "info", 3]
    earlier = next(line for line in lines if line["event"] == "earlier")
    assert earlier["timestamp"] == "2026-11-21T14:00:00Z", "the job's own time"
    warned = next(line for line in lines if line["event"] == "offset 5")
    assert (warned["level"], warned["logger"], warned["batch"]) == ("warning", "tideline.flow.writing", 7)
    assert warned["traceback"].endswith("invalid literal for int() with base 10: 'inner'")
    failed = next(line for line in lines if "FatalError" in line["event"])
    assert (failed["level"], failed["event"].splitlines()[0]) == ("error", "tideline: FatalError: orders: wrong")


def test_other_lines_of_spark_stay_as_they_are_and_name_the_pipeline_and_its_batches(tmp_path, spark_submit):
    lines = lines_of(WRITE, tmp_path, **spark_submit)
    for text in ("a line of Spark's JVM", "a transform that looks like the job"):
        [line] = [line for line in lines if text in line["event"]]
        assert (line["level"], line["pipeline"], line["batches"]) == ("info", "orders", [7, 8])
        assert "batch" not in line


def test_people_get_the_lines_of_the_job_as_it_prints_them(tmp_path, spark_submit):
    [line] = [line for line in lines_of(WRITE, tmp_path, "text", **spark_submit) if "published" in line["event"]]
    assert line["event"] == "orders batch 7 attempt 2: published 100 %s"
    assert not {"batch", "attempt", "batches", "pipeline"} & line.keys()


def test_another_form_is_refused(monkeypatch):
    monkeypatch.setenv("TIDELINE_LOG_FORMAT", "xml")
    with pytest.raises(FatalError, match="expected text or json"):
        task_log.begin("orders")
