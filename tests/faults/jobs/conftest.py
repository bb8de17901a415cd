"""The servers of this room: they are killed, so nobody else's tests may share them."""

from collections.abc import Iterator

import pytest

from faults.jobs.crashing_servers import Servers


@pytest.fixture(scope="session")
def crashing(tmp_path_factory) -> Iterator[Servers]:
    """A Postgres and a broker that come back when they were killed."""
    folder = tmp_path_factory.mktemp("jobs")
    with Servers(folder).running() as servers:
        yield servers
