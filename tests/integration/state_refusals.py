"""What Postgres refuses of a state: attempts that come out of turn, and publications that break a law."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from ledgers import WRITER, stage
from stateful import positions, publish, states
from tideline.errors import NeedsOperatorError
from tideline.ledger import attempts, state
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger
from tideline.ledger.database_errors import RefusedError
from tideline.ledger.folding import StagedStates

LATER, SOONER = datetime(2026, 11, 23, 12, tzinfo=UTC), datetime(2026, 11, 23, 11, tzinfo=UTC)
REWIND = "INSERT INTO tideline.rewind (pipeline, reason) VALUES (%s, 'wrong processor'); "


def out_of_turn(ledger: Ledger, batch_id: int) -> Attempt:
    """Claim a batch without asking whether it is its turn, as an older release would."""
    with ledger.transaction():
        attempt = attempts.take_over(ledger, ledger.row("lock_batch", batch_id=batch_id), WRITER)
    stage(ledger, attempt)
    return attempt


def refuses(
    ledger: Ledger, attempt: Attempt, found: StagedStates, also: Callable[[Ledger], object] = lambda _: None
) -> str:
    """Publish what Postgres must refuse; return the text of the error. Nothing has changed."""
    before = states(ledger), positions(ledger)
    with pytest.raises((RefusedError, NeedsOperatorError)) as caught:
        publish(ledger, attempt, found, also=also)
    assert (states(ledger), positions(ledger)) == before
    return str(caught.value)


def read_again(ledger: Ledger, attempt: Attempt, found: StagedStates) -> StagedStates:
    """Return what an attempt has staged, with the positions as they are now."""
    return replace(
        found, after=state.newest_fold(ledger, attempt.pipeline), positions=state.positions(ledger, attempt.batch_id)
    )
