"""A failed run: marking its task as success moves no head, and clearing it writes its batches with the same ranges.

For each other way to retry a batch see, in tests/integration, commands/test_cli_acts.py, test_attempts.py and test_plan.py; for what is loaded
then, test_job.py.
"""

from dataclasses import dataclass
from datetime import datetime

import pytest

import records
from declared_pipelines import HOUR, LAST_TICK
from system import Place, System, decoded

NAME = "unfinished"


def produce(system: System, before: datetime, first: int, end: int) -> dict[Place, bytes | None]:
    moment = round(before.timestamp() * 1000) - 1
    values = map(records.record, range(first, end))
    return records.produce(system.bootstrap, NAME, values, partitions=2, timestamp_ms=moment)


@dataclass(frozen=True, kw_only=True)
class Failed:
    """A run up to a moment, whose transform had a mistake, and its two batches."""

    sent: dict[Place, bytes | None]
    """The records from before the moment."""
    run_id: str
    batches: list[int]
    states: dict[str, str]


@pytest.fixture(scope="module")
def failed(system) -> Failed:
    records.create(system.bootstrap, name=NAME, partitions=2)
    sent = produce(system, LAST_TICK - HOUR, 0, 240)
    produce(system, LAST_TICK, 240, 300)
    run_id = system.fail(NAME, until=(LAST_TICK - HOUR).isoformat())
    batches = system.planned(NAME, run_id)
    return Failed(sent=sent, run_id=run_id, batches=batches, states=system.states(NAME, run_id))


@pytest.fixture(scope="module")
def marked(system, failed) -> str:
    """Mark `write` as success although it has failed; return the log of the task that runs then."""
    system.airflow.mark(NAME, failed.run_id, "write", "success")
    system.wait(lambda: system.states(NAME, failed.run_id)["advance"] == "failed", "advance to fail")
    # A run that is cleared while the scheduler is about to mark it as failed stays failed.
    assert system.airflow.finished(NAME, failed.run_id) == "failed"
    assert system.heads(NAME) == [0, 0]
    return system.log(NAME, failed.run_id, "advance")


@pytest.fixture(scope="module")
def cleared(system, failed, marked) -> None:
    """Correct the transform, and clear the run."""
    assert system.batches(NAME) == dict(zip(failed.batches, ("failed", "planned"), strict=True))
    (system.folder / "pipelines" / NAME / "transform.py").unlink()
    system.airflow.clear(NAME, failed.run_id)
    system.succeed(NAME, failed.run_id)


def test_a_mistake_fails_write_at_once(system, failed):
    """Two retries are declared; they would cost two JVMs and fail in the same way."""
    assert failed.states == {
        "plan": "success",
        "write": "failed",
        "advance": "upstream_failed",
        "announce": "skipped",
    }
    log = "\n".join(system.airflow.log(NAME, failed.run_id, "write", 1))
    assert "transform.py: cannot be imported: ModuleNotFoundError" in log
    assert system.attempts(NAME)[0] == (1, "failed")


def test_marking_a_failed_write_as_success_moves_no_head_and_names_what_is_unfinished(failed, marked):
    first, second = failed.batches
    assert f"batch {first} is failed, last tried by write try 1 of {failed.run_id}" in marked
    assert "a_module_that_does_not_exist" in marked
    assert f"batch {second} is planned, not tried yet" in marked


def test_a_run_that_is_cleared_writes_its_own_batches_with_the_same_ranges_and_nothing_new(system, failed, cleared):
    assert system.planned(NAME, failed.run_id) == failed.batches
    assert [system.ranges(batch_id) for batch_id in failed.batches] == [
        {0: (0, 60), 1: (0, 60)},
        {0: (60, 120), 1: (60, 120)},
    ]
    assert system.batches(NAME) == dict.fromkeys(failed.batches, "advanced")
    assert system.output(NAME) == decoded(failed.sent)
    assert system.heads(NAME) == [120, 120]
    assert sorted(system.attempts(NAME)) == [(1, "failed"), (1, "published"), (2, "published")]
