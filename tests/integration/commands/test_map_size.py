"""The map of five hundred partitions is small, also where no two neighbouring cells are equal."""

import re
from collections.abc import Iterator
from uuid import UUID

import pytest
from starlette.requests import Request

import large_ledger
from given_ledger import ledgers
from given_ledger.ledgers import PIPELINE
from tideline.ledger.connection import Ledger
from tideline.web import pipeline

PARTITIONS = 500
BATCHES_OF_EACH = 60


@pytest.fixture
def wide(postgres, ledger_template) -> Iterator[str]:
    """Create a history of which every second batch of each partition has rejected some; return the ledger's URL."""
    with ledgers.copy_of(postgres, ledger_template) as url, Ledger(url, actor="test") as ledger:
        large_ledger.fill(
            ledger, PIPELINE, batches=PARTITIONS * BATCHES_OF_EACH, partitions=PARTITIONS, topic_id=str(UUID(int=7))
        )
        with ledger.transaction(), ledger.connection.cursor() as cursor:
            cursor.execute("SET LOCAL session_replication_role = replica")
            cursor.execute(
                "UPDATE tideline.batch_range SET n_rejected = rejected, n_written = n_read - rejected"
                " FROM (VALUES (0), (1)) AS every (rejected) WHERE lower(offsets) / %s %% 2 = rejected",
                (large_ledger.OFFSETS,),
            )
        yield url


def test_the_map_of_many_partitions_is_below_a_megabyte(wide, monkeypatch):
    monkeypatch.setenv("TIDELINE_LEDGER_URL", wide)
    answer = pipeline.coverage(Request({"type": "http", "headers": [], "root_path": ""}), PIPELINE, may_decide=False)
    shown = answer.body.decode()
    n_cells = sum(int(width) for width in re.findall(r'class="bar" viewBox="0 0 (\d+) 20"', shown))
    n_dashes = sum(line.count("m") for line in re.findall(r'class="cell rejected" [^>]* d="([^"]+)"', shown))
    assert n_cells == PARTITIONS * BATCHES_OF_EACH
    assert n_dashes >= n_cells / 2 - PARTITIONS, "too many neighbours are equal: the map is not put to a test"
    assert len(answer.body) < 1_000_000
