"""Fixtures of the process tests."""

from collections.abc import Iterator

import pytest

from faults.processes.workers import Workers


@pytest.fixture(scope="session")
def workers(tmp_path_factory, side_by_side) -> Iterator[Workers]:
    """Yield the workers, each with its own Postgres server."""
    with Workers(tmp_path_factory.mktemp("workers"), side_by_side) as found:
        yield found
