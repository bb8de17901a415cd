"""What the transform makes of a sample."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from tideline.testing import trial

LINES = [
    b'{"kind": "impression", "offer_id": 7, "user_id": "ada", "happened_at": "2026-11-21T14:00:00Z"}',
    b'{"kind": "conversion", "offer_id": 7, "user_id": "ada", "revenue": "2.50", "happened_at": "2026-11-21T14:05:00Z"}',
    b'{"kind": "conversion", "offer_id": "seven"}',
    b'{"offer_id": 7}',
]


def test_conversions_are_written_and_everything_else_is_left_out():
    found = trial(Path(__file__).parent, LINES)
    at = datetime(2026, 11, 21, 14, 5, tzinfo=UTC)
    assert found.rows == [{"offer_id": 7, "user_id": "ada", "revenue": Decimal("2.50"), "converted_at": at}]
    assert [reject.line for reject in found.rejects] == [3]
    assert found.n_filtered == 2
