"""The number of records that these tests send, and a table that no record may reach."""

from collections.abc import Iterator

import psycopg2
import pytest

from faults.share import Share
from servers.fixtures import cli

__all__ = ["canary", "cli", "n_records"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for longer runs than the levels allow."""
    parser.addoption(
        "--bad-records", type=int, help="records through Spark into Postgres; by default the level's share"
    )


@pytest.fixture
def n_records(request: pytest.FixtureRequest, share: Share) -> int:
    """Return the number of records through Spark into Postgres. The runner of all levels does not set the option."""
    return request.config.getoption("--bad-records", None) or share.bad_records


@pytest.fixture
def canary(ledger_url: str) -> Iterator[None]:
    """Create a table that no text may reach. It is in the test's database, and its content must be unchanged after the test."""
    connection = psycopg2.connect(ledger_url)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA ads; CREATE TABLE ads.canary AS SELECT n FROM generate_series(1, 3) n")
        yield
        cursor.execute("SELECT array_agg(n ORDER BY n) FROM ads.canary")
        assert cursor.fetchall() == [([1, 2, 3],)]
    connection.close()
