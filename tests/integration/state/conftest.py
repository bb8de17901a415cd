"""Fixtures of the tests of state."""

import pytest

from given_ledger.ledgers import start_streams
from given_ledger.states import LATER, SOONER, folded, planned


@pytest.fixture
def stream(ledger):
    """Start one stream, and return its id."""
    return start_streams(ledger, 1)[0]


@pytest.fixture
def two(ledger, stream):
    """Fold two batches, the second of which changes one key, clears another one and brings a third."""
    first = folded(ledger, planned(ledger, {stream: (0, 10)}), [
        (1, '["ann"]', stream, {"clicks": 1}, LATER, 3), (1, '["bob"]', stream, {"clicks": 2}, None, 4)], max_times={stream: SOONER})  # fmt: skip
    second = folded(ledger, planned(ledger, {stream: (10, 20)}), [
        (1, '["ann"]', stream, {"clicks": 5}, None, 13), (1, '["bob"]', stream, None, None, 14), (1, '["cyd"]', stream, {"clicks": 9}, None, 19)],
        max_times={stream: LATER})  # fmt: skip
    return first.batch_id, second.batch_id
