"""Input of trigger forms, and the reported mistakes."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from tideline.airflow.trigger_form import Triggered
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import NamedRange
from tideline.errors import FatalError

START, END = datetime(2026, 11, 21, 13, tzinfo=UTC), datetime(2026, 11, 21, 14, tzinfo=UTC)
HOUR = (START, END)
FIRST, SECOND = NamedRange("ads", 3, OffsetRange(100, 200)), NamedRange("clicks.eu", 0, OffsetRange(0, 5))


def mistakes(call: Callable[[Triggered], object], triggered: Triggered) -> list[str]:
    """Return the lines in which the refusal names the mistakes."""
    with pytest.raises(FatalError) as refused:
        call(triggered)
    first, *lines = refused.value.problem.splitlines()
    assert ("a mistake" in first) == (len(lines) == 1)
    assert first.endswith(f"{len(lines)} mistakes:" if len(lines) > 1 else "a mistake:")
    return [line.strip() for line in lines]
