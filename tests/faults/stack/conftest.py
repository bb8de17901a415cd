"""One stack for all schedules of the session."""

from collections.abc import Iterator

import pytest

import starting
from faults.stack.stack_scene import declare
from system import System

# What Airflow finds out after half a minute or five by itself: that a scheduler or a triggerer is dead, and that its tasks are nobody's.
QUICK_TO_ADOPT = {
    "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "2",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "20",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "5",
    # Each look at a DAG file is a process that imports everything.
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "60",
    "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "2",
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "20",
}


@pytest.fixture(scope="session")
def system(tmp_path_factory, first_seed) -> Iterator[System]:
    """The running stack with an empty ledger."""
    folder = tmp_path_factory.mktemp("stack")
    declare(folder / "pipelines", first_seed)  # known to Airflow when it starts, where it would be looked for later
    with starting.running(folder, settings=QUICK_TO_ADOPT) as running:
        yield running
