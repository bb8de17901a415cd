"""Fixtures of the job tests. Their servers are killed, so no other tests may share them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.jobs.crashing_servers import Servers

BY_NIGHT = {
    "test_asynchronous_standby.py",
    "test_broker_cluster.py",
    "test_kubernetes.py",
    "test_lost_executors.py",
    "test_operator_on_cluster.py",
}
"""Files that take minutes, and hold no law that a commit's tests do not hold too."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if collection_path.name in BY_NIGHT and not config.getoption("--soak") else None


@pytest.fixture(scope="session")
def crashing(tmp_path_factory) -> Iterator[Servers]:
    """Yield a Postgres and a broker that can be started again after they were killed."""
    folder = tmp_path_factory.mktemp("jobs")
    with Servers(folder).running() as servers:
        yield servers
