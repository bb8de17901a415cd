"""A concurrent scheduled and manual run: Airflow starts both, and the ledger keeps them apart."""

import pytest

import declared_pipelines
import held_tasks
import records
from system import decoded

NAME = "side_by_side"


@pytest.fixture(scope="module")
def both(system) -> tuple[dict, dict, int, str]:
    """Send records before and after the end of the interval; return them, the scheduled run's batch, and the manual run, which began meanwhile."""
    tick_ms = round(declared_pipelines.LAST_TICK.timestamp() * 1000)
    before = system.fill(NAME, 200, partitions=2, timestamp_ms=tick_ms - 1)
    values = map(records.record, range(200, 300))
    after = records.produce(system.bootstrap, NAME, values, partitions=2, timestamp_ms=tick_ms)
    system.airflow.unpause(NAME)
    write = held_tasks.writing(system, NAME)
    with held_tasks.before_publish(system, write.batch_id):
        manual = system.airflow.trigger(NAME)
        system.wait(lambda: system.states(NAME, manual).get("plan") == "success", "the manual run to be planned")
    system.succeed(NAME, manual)
    [(scheduled,)] = system.rows("SELECT run_id FROM tideline.batch WHERE batch_id = %s", write.batch_id)
    system.succeed(NAME, scheduled)
    return before, after, write.batch_id, manual


def test_a_scheduled_run_reads_up_to_the_end_of_its_interval(system, both):
    before, _, batch_id, _ = both
    assert system.ranges(batch_id) == {0: (0, 100), 1: (0, 100)}
    rows = system.rows(f"SELECT kafka_partition, kafka_offset FROM e2e.{NAME} WHERE tideline_batch = %s", batch_id)
    assert set(rows) == set(before)


def test_runs_side_by_side_load_disjoint_ranges_and_everything_once(system, both):
    before, after, batch_id, manual = both
    [first, own] = system.planned(NAME, manual)
    assert first == batch_id
    assert system.ranges(own) == {0: (100, 150), 1: (100, 150)}
    assert system.output(NAME) == decoded(before | after)
    assert system.attempts(NAME) == [(1, "published"), (1, "published")]
    assert system.batches(NAME) == {batch_id: "advanced", own: "advanced"}
