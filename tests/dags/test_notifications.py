"""Notifications: which failures reach the declared notifier, and with which text."""

import json
import logging
from types import SimpleNamespace

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from tideline.airflow import notifications
from tideline.declaration import Notify
from tideline.declaration.pipelines import Broken
from tideline.domain.checks import Verdict
from tideline.errors import FatalError, RetryableError
from tideline.flow.advancing import stopped
from tideline.reports.checks import environment

CLASS = "recording_notifier.RecordingNotifier"
WRONG = FatalError("orders: wrong", next_step="correct it", entry="declaration")
STOPPED = stopped("orders", [("orders/0", 5, "offsets [5, 9) are gone unread")])
JOB = (
    "Cannot execute: spark-submit --master local[2] write_batches.py. Error code is: 20.\nLast spark-submit output:\n"
    "10:00:00 WARN Something: else\ntideline: FatalError: orders batch 7: wrong\n  Next: correct it"
)


@pytest.fixture
def notify(tmp_path):
    """Return a function that declares the notifier, and one that reads what it has received."""
    path = tmp_path / "notifications.jsonl"

    def declare(text="{{ tideline.message }}", on=("failure", "stopped_stream"), notifier=CLASS, **arguments):
        return Notify(notifier=notifier, arguments={"path": str(path), "text": text, **arguments}, on=on)

    declare.received = lambda: [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return declare


def broken(notify):
    """Return a pipeline whose declaration has mistakes: of both kinds only the name and this section count here."""
    return Broken(name="orders", error=WRONG, notify=notify)


def failed(error=WRONG, task_id="advance", others=(), **context):
    """Return what Airflow passes to the callback of a task that has failed. `others` are the states of the other tasks, one dict for each look."""
    looks = iter(others)
    latest = {}

    def states(**_):
        latest.update(next(looks, {}))
        return {"manual__1": dict(latest)}

    ti = SimpleNamespace(dag_id="orders", run_id="manual__1", task_id=task_id, get_task_states=states)
    exception = {"exception": AirflowFailException(str(error))} if error is not None else {}
    return {"ti": ti, "dag": DAG(dag_id="orders", schedule=None), "params": {}, **exception, **context}


def send(declared, context):
    [callback] = notifications.of_pipeline(broken(declared))["on_failure_callback"]
    callback(context)


def test_without_a_notifier_tasks_have_no_callback():
    nothing = broken(Notify())
    assert (
        notifications.of_pipeline(nothing)
        == notifications.of_chosen([nothing])
        == notifications.of_upkeep(nothing)
        == {}
    )


def test_the_text_is_rendered_with_the_task_and_what_has_failed(notify):
    text = (
        "{{ ti.task_id }} of {{ dag.dag_id }}: {{ tideline.event }} of {{ tideline.pipeline }}: {{ tideline.message }}"
    )
    send(notify(text), failed())
    [received] = notify.received()
    assert received["text"] == f"advance of orders: failure of orders: {WRONG}"


def test_what_a_message_quotes_is_no_template_and_is_escaped_on_request(notify):
    quoting = FatalError("orders: found {{ 7 * 7 }} <img src=x>", next_step="correct it")
    send(notify("{{ tideline.message }} and {{ tideline.message | e }}"), failed(quoting))
    [received] = notify.received()
    assert received["text"].startswith("orders: found {{ 7 * 7 }} <img src=x>")
    assert "and orders: found {{ 7 * 7 }} &lt;img src=x&gt;" in received["text"]


def test_a_stopped_stream_is_named_with_its_reason_and_the_next_command(notify):
    send(notify("{{ tideline.event }}: {{ tideline.message }}"), failed(STOPPED))
    [received] = notify.received()
    assert received["text"].startswith("stopped_stream: orders: streams are stopped, the others go on:")
    assert "orders/0 at offset 5: offsets [5, 9) are gone unread" in received["text"]
    assert "tideline accept-loss orders orders/0 --reason ..." in received["text"]


@pytest.mark.parametrize(
    ("on", "error", "count"),
    [
        (["failure"], WRONG, 1),
        (["failure"], STOPPED, 1),
        (["stopped_stream"], WRONG, 0),
        (["stopped_stream"], STOPPED, 1),
        (["failure", "stopped_stream"], STOPPED, 1),
    ],
)
def test_a_stopped_stream_is_a_failure_too_and_notifies_once(notify, on, error, count):
    send(notify(on=on), failed(error))
    assert len(notify.received()) == count


def test_of_the_spark_jobs_output_only_its_own_error_is_sent(notify):
    send(notify(), failed(task_id="write", exception=AirflowException(JOB)))
    [received] = notify.received()
    assert received["text"] == "orders batch 7: wrong\n  Next: correct it"


def test_a_long_message_keeps_its_beginning_and_the_next_command(notify):
    streams = [(f"orders/{number}", 5, "offsets [5, 9) are gone unread") for number in range(100)]
    send(notify(), failed(stopped("orders", streams)))
    [received] = notify.received()
    assert len(received["text"]) < 3000
    assert received["text"].startswith("orders: streams are stopped")
    assert received["text"].endswith("docs/runbook.md#stream-stopped")


def test_a_killed_process_is_notified_without_an_error(notify):
    send(notify(), failed(None))
    [received] = notify.received()
    assert "it was killed, or its machine is gone" in received["text"]


@pytest.mark.parametrize(
    ("task_id", "others", "count"),
    [
        ("plan", [{}], 1),
        ("advance", [{"announce": "running"}], 1),
        ("advance", [{"announce": "failed"}], 0),
        ("announce", [{"plan": "failed", "advance": "upstream_failed"}], 0),
        ("announce", [{"plan": "success", "advance": "success"}], 1),
        ("announce", [{"advance": "up_for_retry"}], 1),
        ("announce", [{"advance": "running"}, {"advance": "running"}, {"advance": "failed"}], 0),
        ("announce", [{"advance": "running"}, {"advance": "success"}], 1),
    ],
)
def test_of_a_run_whose_tasks_fail_together_one_notifies(notify, task_id, others, count):
    send(notify(), failed(task_id=task_id, others=others))
    assert len(notify.received()) == count


def test_a_stopped_stream_is_notified_even_if_announce_has_failed_before(notify):
    send(notify(), failed(STOPPED, others=[{"announce": "failed"}]))
    [received] = notify.received()
    assert "tideline accept-loss" in received["text"]


def test_if_airflow_does_not_say_whether_others_have_failed_it_notifies(notify):
    context = failed()
    context["ti"].get_task_states = None
    send(notify(), context)
    assert len(notify.received()) == 1


def test_tasks_of_upkeep_belong_to_different_pipelines_and_all_notify(notify):
    [callback] = notifications.of_upkeep(broken(notify()))["on_failure_callback"]
    callback(failed(others=[{"advance": "failed", "plan": "failed"}]))
    assert len(notify.received()) == 1


@pytest.mark.parametrize(("chosen", "count"), [("orders", 1), ("clicks", 0)])
def test_a_replay_notifies_as_the_chosen_pipeline_declares(notify, chosen, count):
    declared = [broken(notify()), Broken(name="clicks", error=WRONG)]
    [callback] = notifications.of_chosen(declared)["on_failure_callback"]
    callback(failed(params={"pipeline": chosen}))
    assert len(notify.received()) == count


def test_values_of_the_environment_are_looked_up_at_any_depth(notify, monkeypatch):
    monkeypatch.setenv("PAGER_TOKEN", "t0p-s3cret")
    arguments = {"headers": [{"Authorization": {"env": "PAGER_TOKEN"}}]}
    send(notify(**arguments), failed())
    [received] = notify.received()
    assert received["headers"] == [{"Authorization": "t0p-s3cret"}]


@pytest.mark.parametrize(
    ("declared", "found"),
    [
        ({"error": "no answer"}, "RuntimeError: no answer"),
        ({"text": "{{ nothing.here }}"}, "UndefinedError"),
        ({"notifier": "no.such.package.Notifier"}, "expected a notifier of Airflow that can be created, found ModuleNotFoundError"),
        ({"notifier": "recording_notifier.Nothing"}, "found AttributeError"),
        ({"notifier": "pathlib.PurePath"}, "found TypeError"),
        ({"token": {"env": "UNSET_TOKEN"}}, "UNSET_TOKEN is not set; it holds notify.arguments.token of pipeline orders"),
    ],
)  # fmt: skip
def test_a_notifier_that_fails_is_in_the_log_and_changes_nothing_else(notify, caplog, monkeypatch, declared, found):
    monkeypatch.delenv("UNSET_TOKEN", raising=False)
    with caplog.at_level(logging.INFO, logger=notifications.__name__):
        send(notify(**declared), failed())
    assert "could not notify of this failure" in caplog.text
    assert found in caplog.text
    assert notify.received() == []


def test_an_error_that_a_retry_may_fix_is_notified_with_its_own_text(notify):
    error = RetryableError("the ledger's database cannot be reached", next_step="start it")
    send(notify(), failed(exception=error))
    assert notify.received()[0]["text"] == str(error)


def test_the_message_about_refused_arguments_does_not_show_a_secret(monkeypatch):
    monkeypatch.setenv("PAGER_TOKEN", "t0p-s3cret")
    declared = Notify(notifier="builtins.int", arguments={"token": {"env": "PAGER_TOKEN"}, "t0p-s3cret": 1})
    with pytest.raises(FatalError) as caught:
        notifications.notifier("orders", declared)
    assert "t0p-s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("declared", "verdicts"),
    [({}, [Verdict.OK]), ({"to": "oncall", "notifier": "no.such.package.Notifier"}, [Verdict.BAD])],
)
def test_doctor_creates_a_notifier_and_sends_nothing(notify, declared, verdicts):
    assert [check.verdict for check in environment.notifier(broken(notify(**declared)))] == verdicts
    assert notify.received() == []


def test_doctor_has_nothing_to_say_where_no_notifier_is_declared():
    assert list(environment.notifier(broken(Notify()))) == []
