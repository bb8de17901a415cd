"""The workers that all tests of this room share."""

from collections.abc import Iterator

import pytest

from faults.processes.workers import Workers


@pytest.fixture(scope="session")
def workers(tmp_path_factory, side_by_side) -> Iterator[Workers]:
    """Each with its own server."""
    with Workers(tmp_path_factory.mktemp("workers"), side_by_side) as found:
        yield found
