"""The lines of the Spark job as text and as JSON, and the error that Airflow finds in them."""

import json
import logging

import pytest

from tideline import job_log
from tideline.errors import FatalError

ERROR = FatalError("orders batch 7: wrong", next_step="correct it", entry="declaration")
AIRFLOW = "Cannot execute: spark-submit write_batches.py. Error code is: 20.\nLast spark-submit output:\n10:00:00 WARN Something: else\n"


@pytest.fixture
def log(monkeypatch, capsys):
    """Begin a log in a form; return a function that returns what was printed."""
    before = (logging.root.handlers[:], logging.root.level)

    def begin(form):
        monkeypatch.setenv("TIDELINE_LOG_FORMAT", form)
        job_log.begin("orders")
        return lambda: capsys.readouterr().out

    yield begin
    logging.root.handlers[:], logging.root.level = before
    monkeypatch.setenv("TIDELINE_LOG_FORMAT", "text")
    job_log.begin("orders")


def test_without_a_form_a_line_is_the_message(log):
    said = log("")
    job_log.about(pipeline="orders", batch=7, attempt=2)
    job_log.say("orders batch 7 attempt 2: published")
    assert said() == "orders batch 7 attempt 2: published\n"


def test_as_json_a_line_says_what_it_is_about(log):
    said = log("json")
    job_log.say("begun")
    job_log.about(pipeline="orders", batch=7, attempt=2)
    job_log.say("two\nlines", level="warning")
    first, second = map(json.loads, said().splitlines())
    assert {key: value for key, value in first.items() if key != "at"} == {
        "level": "info",
        "logger": "tideline.job",
        "pipeline": "orders",
        "message": "begun",
    }
    assert second["at"].endswith("+00:00")
    assert {key: second[key] for key in ("level", "batch", "attempt", "message")} == {
        "level": "warning",
        "batch": 7,
        "attempt": 2,
        "message": "two\nlines",
    }


def test_as_json_warnings_of_other_modules_have_the_same_form(log):
    said = log("json")
    job_log.about(pipeline="orders", batch=7)
    other = logging.getLogger("tideline.flow.writing")
    other.info("not shown, as without JSON")
    try:
        int("inner")
    except ValueError:
        other.warning("offset %s", 5, exc_info=True)
    [line] = map(json.loads, said().splitlines())
    assert (line["logger"], line["level"], line["batch"], line["message"]) == (other.name, "warning", 7, "offset 5")
    assert line["exception"].endswith("invalid literal for int() with base 10: 'inner'")


@pytest.mark.parametrize("form", ["text", "json"])
def test_airflow_finds_the_whole_error_in_either_form(log, form):
    said = log(form)
    job_log.say_error(ERROR)
    assert job_log.error_in(AIRFLOW + said().rstrip("\n")) == str(ERROR)


def test_a_line_that_was_cut_is_no_error():
    assert job_log.error_in(AIRFLOW + '{"at": "2026-11-21T14:00:00", "mess') is None


def test_another_form_is_refused(log):
    with pytest.raises(FatalError, match="expected text or json, found 'xml'"):
        log("xml")
