"""Batches whose records are folded into a state, in the ledger only: as a job does it, without Spark and Kafka."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from psycopg2.extras import Json, execute_values

from given_ledger.ledgers import PIPELINE, RUN, WRITER, claim, query, stage
from tideline.declaration.pipelines import Pipeline
from tideline.declaration.state import Stateful
from tideline.domain.facts import PartitionFacts
from tideline.domain.offsets import OffsetRange
from tideline.domain.states import BatchKind
from tideline.errors import NeedsOperatorError
from tideline.ledger import attempts, folding, publishing, reservations, state
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger
from tideline.ledger.database_errors import RefusedStatementError
from tideline.ledger.folding import StagedStates
from tideline.ledger.publishing import Written
from tideline.ledger.reservations import Reservation, Run
from tideline.ledger.state_columns import StateColumns
from tideline.sinks.staging_tables import staging_name

COLUMNS = StateColumns(key=("user_id",), types={"clicks": "bigint"})
Staged = tuple[int, str, int, dict[str, Any] | None, datetime | None, int]
"""Phase, key, stream, value, expiry and offset."""


def planned(
    ledger: Ledger,
    ranges: Mapping[int, tuple[int, int]],
    *,
    kind: BatchKind = BatchKind.LIVE,
    run: Run = RUN,
    pipeline: str = PIPELINE,
) -> int:
    """Reserve one stateful batch."""
    wanted = {
        stream: Reservation(
            offsets=OffsetRange(*piece),
            gaps_allowed=False,
            facts=PartitionFacts(partition=0, log_start=0, end=max(piece[1], 1000)),
        )
        for stream, piece in ranges.items()
    }
    with ledger.transaction():
        [batch_id] = reservations.reserve(ledger, pipeline, run, kind, [wanted], stateful=True)
        reservations.join_run(ledger, pipeline, run, [batch_id])
    return batch_id


def staged(ledger: Ledger, attempt: Attempt, rows: Sequence[Staged] = (), **changes: Any) -> StagedStates:
    """Stage states as one task of each phase does."""
    table = f"{staging_name(attempt)}{folding.SUFFIX}"
    after, positions = state.newest_fold(ledger, attempt.pipeline), state.positions(ledger, attempt.batch_id)
    with ledger.transaction(), ledger.connection.cursor() as cursor:
        folding.create_staging(ledger, table)
        execute_values(
            cursor,
            f"INSERT INTO tideline_staging.{table} (tideline_task, phase, key, stream_id, value, expires_at, kafka_offset) VALUES %s",
            [
                (phase, phase, key, stream, None if value is None else Json(value), expires, offset)
                for phase, key, stream, value, expires, offset in rows
            ],
        )
    every = {
        "table": table,
        "folding": {1: sum(row[0] == 1 for row in rows)},
        "expiring": {2: sum(row[0] == 2 for row in rows)},
        "after": after,
        "positions": positions,
        "max_times": {},
        "processor": "v1",
        "columns": COLUMNS,
        "n_expired": sum(row[0] == 2 for row in rows),
    }
    return StagedStates(**{**every, **changes})


def publish(
    ledger: Ledger, attempt: Attempt, found: StagedStates, *, also: Callable[[Ledger], object] = lambda _: None
) -> None:
    """Publish a batch with its states; `also` is done in the same transaction, after them."""

    def insert_output(session: Ledger) -> Written:
        folding.publish_states(session, attempt, found)
        also(session)
        return Written(n_written={piece.stream_id: len(piece.offsets) for piece in attempt.ranges})

    facts = {
        piece.stream_id: PartitionFacts(partition=piece.partition, log_start=0, end=piece.offsets.end)
        for piece in attempt.ranges
    }
    publishing.publish(ledger, attempt, insert_output, facts=facts, filtered_by_difference=False)


def folded(ledger: Ledger, batch_id: int, rows: Sequence[Staged] = (), **changes: Any) -> Attempt:
    """Claim, stage and publish a stateful batch."""
    attempt = claim(ledger, batch_id)
    stage(ledger, attempt)
    publish(ledger, attempt, staged(ledger, attempt, rows, **changes))
    return attempt


def states(ledger: Ledger, pipeline: str = PIPELINE) -> dict[str, tuple[Any, ...]]:
    """Return the states of a pipeline: by key, value, stream, offset and the batch that has changed it last."""
    rows = query(
        ledger, "SELECT key, value, stream_id, kafka_offset, batch_id FROM tideline.state WHERE pipeline = %s", pipeline
    )
    return {key: tuple(rest) for key, *rest in rows}


def positions(ledger: Ledger) -> dict[int, tuple[Any, ...]]:
    """Return, by stream, next offset, largest event time, version and batch."""
    rows = query(ledger, "SELECT stream_id, next_offset, max_time, version, batch_id FROM tideline.state_position")
    return {stream: tuple(rest) for stream, *rest in rows}


def with_state(pipeline: Pipeline) -> Pipeline:
    """Return the declaration with a state."""
    section = Stateful.model_validate({"key": "user_id", "columns": dict(COLUMNS.types)})
    return pipeline.model_copy(update={"state": section})


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
    with pytest.raises((RefusedStatementError, NeedsOperatorError)) as caught:
        publish(ledger, attempt, found, also=also)
    assert (states(ledger), positions(ledger)) == before
    return str(caught.value)


def read_again(ledger: Ledger, attempt: Attempt, found: StagedStates) -> StagedStates:
    """Return what an attempt has staged, with the positions as they are now."""
    return replace(
        found, after=state.newest_fold(ledger, attempt.pipeline), positions=state.positions(ledger, attempt.batch_id)
    )
