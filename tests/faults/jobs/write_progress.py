"""Determine the progress of a write task from the ledger and from staging, and keep it from publishing for a moment."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import psycopg2

_PATIENCE_S = 120
_LOOK_S = 0.01
PUBLISHED = "SELECT extract(epoch FROM at)::float8 FROM tideline.event WHERE pipeline = %s AND action = 'publish'"
"""The times at which batches were published, in seconds since the epoch."""
_NEWEST = """
SELECT batch.batch_id, attempt.attempt_id, attempt.pid,
       to_regclass('tideline_staging.attempt_' || replace(attempt.attempt::text, '-', '')) IS NOT NULL,
       EXISTS (SELECT FROM tideline.staged_count WHERE staged_count.attempt_id = attempt.attempt_id),
       EXISTS (SELECT FROM tideline.intent WHERE intent.attempt_id = attempt.attempt_id)
FROM tideline.batch JOIN tideline.attempt USING (attempt)
WHERE batch.pipeline = %s AND batch.state = 'writing' ORDER BY attempt.attempt_id DESC LIMIT 1
"""
LANDED, BY_ANOTHER, REFUSED, NEVER = COMMITS = (
    "landed",
    "settled by another attempt",
    "refused",
    "never made",
)
"""What becomes of an intended commit to an outside sink. Those settled by another attempt have landed too."""
_COMMITS = """
SELECT count(*) FILTER (WHERE landed), count(*) FILTER (WHERE landed AND by_another),
       count(*) FILTER (WHERE NOT landed AND refused), count(*) FILTER (WHERE NOT landed AND NOT refused)
FROM (
    SELECT i.attempt_id IS NOT DISTINCT FROM b.written_by AS landed, a.attempt <> b.attempt AS by_another,
           EXISTS (SELECT FROM tideline.event e WHERE e.attempt = a.attempt AND e.action = 'refuse') AS refused
    FROM tideline.intent i JOIN tideline.attempt a USING (attempt_id) JOIN tideline.batch b ON b.batch_id = i.batch_id
    WHERE b.pipeline = %s) AS intended
"""


class Moment(StrEnum):
    """The progress of an attempt."""

    CLAIMED = "claimed"
    READING = "reading"
    """Its staging table exists, and no task has ended."""
    STAGING = "staging"
    """Some of its tasks have ended."""
    PUBLISHING = "publishing"
    """Everything is staged, and its publishing transaction has begun. For an outside sink: the one that stores its
    intent."""
    COMMITTING = "committing"
    """Its intent is stored, and its commit to an outside sink is on its way."""
    SETTLING = "settling"
    """It has committed, and the transaction that publishes the batch has begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The newest attempt in a pipeline's batches of state `writing`."""

    batch_id: int
    attempt_id: int
    pid: int
    moment: Moment


class Witness:
    """A session of the test's own, which reconnects after crashes of the server.

    Args:
        url: The database.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: psycopg2.extensions.connection | None = None

    def rows(self, statement: str, *bound: object) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows; wait while the server is down."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                if self._connection is None or self._connection.closed:
                    self._connection = psycopg2.connect(self._url, application_name="witness", connect_timeout=10)
                    self._connection.autocommit = True
                with self._connection.cursor() as cursor:
                    cursor.execute(statement, bound)
                    return cursor.fetchall() if cursor.description else []
            except (psycopg2.OperationalError, psycopg2.InterfaceError):
                self.close()
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def close(self) -> None:
        """End the session."""
        if self._connection is not None:
            with suppress(psycopg2.Error):
                self._connection.close()
            self._connection = None

    def standing(self, pipeline: str) -> Standing | None:
        """Return the progress of a pipeline's newest attempt, also if its writer is dead. Return None if nothing is
        being written."""
        rows = self.rows(_NEWEST, pipeline)
        if not rows:
            return None
        batch_id, attempt_id, pid, *signs = rows[0]
        shown = zip((Moment.READING, Moment.STAGING, Moment.COMMITTING), signs, strict=True)
        moment = ([Moment.CLAIMED] + [moment for moment, sign in shown if sign])[-1]
        return Standing(batch_id=batch_id, attempt_id=attempt_id, pid=pid, moment=moment)

    @contextmanager
    def before_publish(self, batch_id: int, alive: Callable[[], object]) -> Iterator[list[int]]:
        """Hold the next publishing or settling transaction of the batch with a lock. Yield the sessions that wait for the
        lock as soon as there are some, or none if `alive` becomes false before."""
        holder = psycopg2.connect(self._url, application_name="witness")
        try:
            with holder.cursor() as cursor:
                cursor.execute("SELECT FROM tideline.batch WHERE batch_id = %s FOR NO KEY UPDATE", (batch_id,))
                yield self._awaited(holder.info.backend_pid, alive)
        finally:
            with suppress(psycopg2.Error):
                holder.close()

    def _awaited(self, holder: int, alive: Callable[[], object]) -> list[int]:
        while alive():
            if found := self.rows("SELECT pid FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))", holder):
                return [pid for (pid,) in found]
            time.sleep(_LOOK_S)
        return []

    def disconnect(self, sessions: Sequence[int]) -> None:
        """End sessions of others, as the server does with those of a client that is silent for too long."""
        self.rows("SELECT pg_terminate_backend(pid) FROM unnest(%s::integer[]) AS pid", list(sessions))

    def commits(self, pipeline: str) -> dict[str, int]:
        """Return what has become of the commits that the attempts at a pipeline's batches have intended."""
        [row] = self.rows(_COMMITS, pipeline)
        return dict(zip(COMMITS, row, strict=True))
