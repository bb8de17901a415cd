"""Retention passes the head of one stream: it stops, the others go on, and the log names the offsets and the command that resolves it.

Other causes that stop a stream, each decision, and what goes on after it are tested without Airflow, in tests/integration: test_plan.py,
kafka/test_cut_logs.py, kafka/test_losses.py, kafka/test_source.py and commands/test_cli_acts.py.
"""

import json
import time

import pytest

import loaded_by_hand
import records
from notifications import notified
from operator_acts import WHO, command, decide, decisions, holes, proposed
from topic_changes import forget

NAME = "outrun"
LOSS = "the pipeline was down for a week"
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def stopped(system) -> str:
    """Let the ledger know two partitions, delete the oldest records of one before they are read, and return the run that detects it."""
    records.create(system.bootstrap, name=NAME, partitions=2, **{"retention.ms": str(HOUR_MS)})
    loaded_by_hand.begin(system, NAME)
    late = round(time.time() * 1000) - HOUR_MS * 2 // 3
    records.produce(system.bootstrap, NAME, map(records.record, range(40)), partitions=2, timestamp_ms=late)
    forget(system, NAME, {0: 5})
    return system.fail(NAME)


@pytest.fixture(scope="module")
def decided(system, stopped) -> None:
    """Run the command that the log proposes."""
    assert (system.heads(NAME), holes(system, NAME)) == ([0, 20], [])
    [proposal] = proposed(system.log(NAME, stopped, "advance"))
    decide(system, proposal, LOSS)


def test_the_stream_stops_and_the_others_go_on(system, stopped):
    states = system.states(NAME, stopped)
    assert states == {"plan": "success", "write": "success", "advance": "failed", "announce": "success"}
    log = system.log(NAME, stopped, "advance")
    assert "outrun/0 at offset 0: offsets [0, 5) are gone unread" in log
    assert proposed(log) == {"tideline accept-loss outrun outrun/0 --reason ..."}
    assert len(system.output(NAME)) == 20


def test_a_stopped_stream_notifies_once_with_its_reason_and_the_next_command(system, stopped):
    [notification] = notified(system, stopped)
    assert notification[:4] == (NAME, stopped, "advance", "stopped_stream")
    assert "outrun/0 at offset 0: offsets [0, 5) are gone unread" in notification.message
    assert proposed(notification.message) == {"tideline accept-loss outrun outrun/0 --reason ..."}
    log = system.log(NAME, stopped, "advance")
    assert "outrun: recording_notifier.RecordingNotifier has notified of this failure (stopped_stream)" in log
    assert "notifying with ***" in log


def test_the_job_has_the_declared_connection_and_properties(system, stopped):
    log = system.log(NAME, stopped, "write")
    assert "--master local[*] --conf spark.sql.shuffle.partitions=3 --properties-file" in log


def test_plan_warns_when_unread_records_have_used_half_of_their_retention(system, stopped):
    used = "outrun/1: the oldest unread record, offset 0, has used more than half of the topic's retention of 1:00:00"
    assert used in system.log(NAME, stopped, "plan")


def test_the_command_proposed_by_the_log_records_a_hole_and_the_stream_goes_on(system, decided):
    assert holes(system, NAME) == [(0, 0, 5, "lost", LOSS, WHO)]
    assert ("accept loss", LOSS) in decisions(system, NAME)
    assert system.heads(NAME) == [5, 20]


def test_doctor_finds_the_declared_notifier_and_pool(system, stopped):
    checks = json.loads(command(system, "tideline", "doctor", NAME, "--json"))["checks"]
    found = {check["check"]: check["found"] for check in checks if check["about"] == NAME}
    assert found["notifier"] == "recording_notifier.RecordingNotifier can be created here; nothing was sent"
    assert found["pool"] == "Airflow has the pool default_pool"
