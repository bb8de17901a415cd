"""A ledger in memory that is compared with a real one."""

import pytest

from faults import records
from faults.memory import MemoryLedger
from faults.memory.mirrored import MirroredDatabase
from given_ledger.ledgers import execute, start_streams


@pytest.fixture
def mirrored(ledger) -> MirroredDatabase:
    """Provide an empty mirrored database, with an output table on both sides."""
    execute(ledger, records.TARGET)
    return MirroredDatabase(ledger)


@pytest.fixture
def session(mirrored) -> MemoryLedger:
    """Open a session that speaks to both."""
    with MemoryLedger(mirrored, actor="test") as session:
        yield session


@pytest.fixture
def stream(session) -> int:
    """Start the first stream in both."""
    [stream_id] = start_streams(session, 1)
    return stream_id
