"""Runs that do not get through: what they leave behind is named, and is finished by the next run."""

from datetime import timedelta

import declaring
import records
from system import decoded

HOUR = timedelta(hours=1)


def test_a_mistake_fails_write_at_once_and_a_write_marked_success_by_hand_does_not_fool_advance(system):
    """Two retries are declared; they would cost two JVMs and tell nothing new."""
    system.fill("marked_success", 10)
    run_id = system.fail("marked_success")
    assert system.states("marked_success", run_id) == {
        "plan": "success",
        "write": "failed",
        "advance": "upstream_failed",
        "announce": "skipped",
    }
    assert system.airflow.tasks("marked_success", run_id)["write"]["try_number"] == 1
    assert "transform.py: cannot be imported: ModuleNotFoundError" in system.log("marked_success", run_id, "write")
    [batch_id] = system.planned("marked_success", run_id)
    system.airflow.mark("marked_success", run_id, "write", "success")
    system.wait(lambda: system.states("marked_success", run_id)["advance"] == "failed", "advance to fail")
    log = system.log("marked_success", run_id, "advance")
    assert f"batch {batch_id} is failed, last tried by write try 1 of {run_id}" in log
    assert "a_module_that_nobody_has" in log
    assert system.heads("marked_success") == [0]
    assert system.events("marked_success", "publish", "advance", "move head") == []


def test_the_next_run_finishes_a_failed_hour_with_the_same_ranges(system):
    first, second = declaring.LAST_TICK - HOUR, declaring.LAST_TICK
    sent = system.fill("failed_hour", 300, partitions=2, timestamp_ms=milliseconds(first) - 1)
    values = map(records.record, range(300, 400))
    sent |= records.produce(
        system.bootstrap, "failed_hour", values, partitions=2, timestamp_ms=milliseconds(second) - 1
    )
    failed = system.fail("failed_hour", until=first.isoformat())
    [old] = system.planned("failed_hour", failed)
    assert "no record is good enough" in system.log("failed_hour", failed, "write")
    assert (system.batches("failed_hour"), system.ranges(old)) == ({old: "failed"}, {0: (0, 150), 1: (0, 150)})

    (system.folder / "pipelines" / "failed_hour" / "transform.py").unlink()
    healed = system.run("failed_hour", until=second.isoformat())
    [again, new] = system.planned("failed_hour", healed)
    assert again == old
    assert system.ranges(old) == {0: (0, 150), 1: (0, 150)}
    assert system.ranges(new) == {0: (150, 200), 1: (150, 200)}
    assert system.output("failed_hour") == decoded(sent)
    assert system.attempts("failed_hour") == [(1, "failed"), (2, "published"), (1, "published")]
    assert system.batches("failed_hour") == {old: "advanced", new: "advanced"}


def milliseconds(moment) -> int:
    return round(moment.timestamp() * 1000)
