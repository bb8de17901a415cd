"""Fixtures of the stack tests: one stack for all schedules of the session."""

from collections.abc import Iterator

import pytest

import start_stack
from faults.stack.stack_scene import declare
from system import System

# Shorter intervals: by default Airflow notices only after 30 seconds to 5 minutes that a scheduler or a triggerer is dead and that
# its tasks are orphaned.
QUICK_TO_ADOPT = {
    "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "2",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "20",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "5",
    # Each parse of a DAG file is a process that imports everything. But records wake a pipeline again, after a crash, only from the next parse on.
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "60",
    "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "2",
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "20",
}


@pytest.fixture(scope="session")
def system(tmp_path_factory, first_seed) -> Iterator[System]:
    """Yield the running stack with an empty ledger."""
    folder = tmp_path_factory.mktemp("stack")
    declare(folder, first_seed)  # so that Airflow knows it at its start and need not look for it later
    with start_stack.running(folder, settings=QUICK_TO_ADOPT) as running:
        yield running
