"""The log of a task names its pipeline on each line, where programs collect the lines."""

import contextvars
import json
import subprocess
import sys

import pytest
from structlog.contextvars import get_contextvars

from tideline.airflow import task_log
from tideline.errors import FatalError

LOGGING = """
import logging, structlog
from airflow.sdk._shared.logging.structlog import configure_logging
from tideline.airflow import task_log
configure_logging(json_output=True, log_level="INFO")
task_log.begin("orders")
logging.getLogger("tideline.airflow.tasks").info("orders: nothing to load")
"""


@pytest.mark.parametrize(("form", "expected"), [("json", {"pipeline": "orders"}), ("text", {}), ("", {})])
def test_only_programs_get_the_name_of_the_pipeline_on_each_line(monkeypatch, form, expected):
    monkeypatch.setenv("TIDELINE_LOG_FORMAT", form)

    def in_a_task():
        task_log.begin("orders")
        return get_contextvars()

    assert contextvars.Context().run(in_a_task) == expected


def test_airflows_own_log_writes_it(monkeypatch, tmp_path):
    monkeypatch.setenv("TIDELINE_LOG_FORMAT", "json")
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    done = subprocess.run([sys.executable, "-c", LOGGING], capture_output=True, text=True, check=True, timeout=60)
    [line] = [json.loads(line) for line in done.stdout.splitlines() if "nothing to load" in line]
    assert (line["pipeline"], line["event"]) == ("orders", "orders: nothing to load")


def test_another_form_is_refused(monkeypatch):
    monkeypatch.setenv("TIDELINE_LOG_FORMAT", "xml")
    with pytest.raises(FatalError, match="expected text or json"):
        task_log.begin("orders")
