"""How many records this room sends, and a table that nobody names."""

from collections.abc import Iterator

import psycopg2
import pytest

from faults.share import Share
from servers import cli

__all__ = ["canary", "cli", "n_records"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """For longer runs than a night has time for."""
    parser.addoption(
        "--bad-records", type=int, help="records through Spark into Postgres; by default the level's share"
    )


@pytest.fixture
def n_records(request: pytest.FixtureRequest, share: Share) -> int:
    """Records through Spark into Postgres. Who runs all of the levels does not know the option."""
    return request.config.getoption("--bad-records", None) or share.bad_records


@pytest.fixture
def canary(ledger_url: str) -> Iterator[None]:
    """A table that no text may reach: it stands in the test's database, and is as it was when the test is through."""
    connection = psycopg2.connect(ledger_url)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA ads; CREATE TABLE ads.canary AS SELECT n FROM generate_series(1, 3) n")
        yield
        cursor.execute("SELECT array_agg(n ORDER BY n) FROM ads.canary")
        assert cursor.fetchall() == [([1, 2, 3],)]
    connection.close()
