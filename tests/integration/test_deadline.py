"""An attempt that exceeds its pipeline's time limit is ended: by cancelling its Spark jobs, or with its process."""

import os
import signal
import subprocess
from textwrap import dedent

import pytest

import records
from tideline import settings
from tideline.errors import RetryableError
from tideline.spark_jobs import deadline
from tideline_stack import program_environment

# Hangs as if a cluster never gave it a session, so that there is nothing to cancel.
HANGING = """\
    import sys, time
    from tideline.spark_jobs import deadline, write_batches

    deadline.MINUTE_SECONDS, deadline.GRACE_SECONDS = float(sys.argv[1]), float(sys.argv[2])
    write_batches.session = lambda _: time.sleep(3600)
    sys.exit(write_batches.main(sys.argv[3:]))
    """
HANGING_TASKS = """\
    import time

    def records(batch):
        time.sleep(3600 if batch.num_rows else 0)
        return batch
    """
TOO_LONG = "loads batch 1 attempt 1 has taken more than the 2 minutes of limits.timeout_minutes; its tasks have read 0 records, of 10 offsets"


@pytest.fixture
def declared(loading):
    """Declare ten records to load within two minutes."""
    topic = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, topic, map(records.record, range(10)))

    def declare(transform=""):
        loading.declare(topic, transform=transform, limits={"timeout_minutes": 2})
        return loading.plan("one")

    return declare


def in_session(session):
    """Return the running processes of a session."""
    listed = subprocess.run(["ps", "-o", "pid=,stat=", "-s", str(session)], check=False, capture_output=True, text=True)
    return [line for line in listed.stdout.splitlines() if line.split()[1][0] != "Z"]


def test_spark_tasks_that_hang_are_cancelled_and_the_attempt_fails(loading, declared, monkeypatch):
    batch_ids = declared(HANGING_TASKS)
    monkeypatch.setattr(deadline, "MINUTE_SECONDS", 0.5)
    monkeypatch.setattr(deadline, "GRACE_SECONDS", 1000)  # this process must not be ended
    with pytest.raises(RetryableError) as caught:
        loading.write("one", batch_ids)
    assert caught.value.problem == TOO_LONG
    assert caught.value.entry == "batch-timed-out"
    assert loading.attempts() == [("failed", str(caught.value))]
    assert (loading.states(), loading.published()) == (["failed"], 0)
    monkeypatch.undo()
    loading.transform("")
    monkeypatch.setenv("TIDELINE_KAFKA", loading.bootstrap)
    monkeypatch.setenv("TIDELINE_LEDGER_URL", loading.url)
    loading.write("one", batch_ids, try_number=2)
    assert loading.published() == 10


def test_a_driver_that_hangs_ends_and_its_attempt_is_recorded_as_failed(loading, declared, tmp_path):
    """A real spark-submit: its JVM waits for the Python process, and ends with the same exit code."""
    batch_ids = declared()
    program, log = tmp_path / "hanging.py", tmp_path / "log"
    program.write_text(dedent(HANGING))
    variables = {
        "TIDELINE_KAFKA": loading.bootstrap,
        "TIDELINE_LEDGER_URL": loading.url,
        "TIDELINE_PIPELINES": str(loading.folder.parent),
        "PYTHONPATH": f"{settings.PROJECT}:{settings.PROJECT / 'include'}",
    }
    with log.open("wb") as output:
        job = subprocess.Popen(
            [
                str(program_environment.BIN / "spark-submit"), "--master", "local[1]", str(program), "0.25", "0.5",
                f"--pipeline={loading.folder.name}", f"--batches={batch_ids[0]}",
                "--dag-id=test", "--run-id=one", "--task-id=write", "--try-number=1",
            ],
            env={**program_environment.clean(tmp_path), **variables},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
    try:
        assert job.wait(300) == RetryableError.exit_code, log.read_text()
        said = log.read_text()
        assert f"tideline: RetryableError: {TOO_LONG}\n  Next: tideline batch 1 " in said
        assert "hanging.py" in said[: said.index("tideline: RetryableError")]  # where its main thread hangs
        [(outcome, problem)] = loading.attempts()
        assert (outcome, problem.splitlines()[0]) == ("failed", TOO_LONG)
        assert loading.states() == ["failed"]
        assert in_session(job.pid) == []
    finally:
        if in_session(job.pid):
            os.killpg(job.pid, signal.SIGKILL)
        job.wait(180)
