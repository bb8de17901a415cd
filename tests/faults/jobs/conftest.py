"""Fixtures of the job tests. Their servers are killed, so no other tests may share them."""

from collections.abc import Iterator

import pytest

from faults.jobs.crashing_servers import Servers


@pytest.fixture(scope="session")
def crashing(tmp_path_factory) -> Iterator[Servers]:
    """Yield a Postgres and a broker that can be started again after they were killed."""
    folder = tmp_path_factory.mktemp("jobs")
    with Servers(folder).running() as servers:
        yield servers
