"""The ledger's database in memory: its tables, its clock, and the one open transaction."""

import random
from collections.abc import Callable, Hashable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from faults.memory.refusals import law
from faults.memory.registry import NO_STEPS, Rows, Statement
from faults.memory.rows import (
    Attempt,
    Batch,
    ClaimedOutput,
    Coverage,
    Event,
    Folded,
    Intent,
    Key,
    KeyState,
    KnownPipeline,
    Outgoing,
    OutputRow,
    Place,
    Position,
    Range,
    Reject,
    Rewind,
    StagedCount,
    StagedRedrive,
    StagedReject,
    StagedRow,
    StagedState,
    Stream,
    TriedRecord,
    Undo,
)

SECOND = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOTHING: Any = object()
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def moment(clock: int) -> datetime:
    """Convert a clock reading to the value that Postgres returns for a time."""
    return _EPOCH + timedelta(microseconds=clock)


class Table:
    """An output table. The key of a row is its coordinates and, where declared, one more column.

    Args:
        columns: The columns that the transform fills.
        item: The additional column of the key.
        unique: Each of these columns is a further key.
    """

    def __init__(self, columns: tuple[str, ...], item: str | None, unique: tuple[str, ...] = ()) -> None:
        self.columns = columns
        self.item = item
        self.rows: dict[Key, OutputRow] = {}
        self.taken: dict[tuple[str, Any], None] = {}
        """Column and value of the further keys that are taken."""
        self.unique = unique

    def key(self, coordinates: Place, columns: tuple[str, ...], values: tuple[Any, ...]) -> Key:
        """Return the key of a row with these values in these columns."""
        return coordinates if self.item is None else (*coordinates, values[columns.index(self.item)])


def _copied(value: Any) -> Any:
    """Copy the containers only: rows are immutable values."""
    match value:
        case dict():
            return {key: _copied(one) for key, one in value.items()}
        case list():
            return list(value)
        case Table():
            copy = Table(value.columns, value.item, value.unique)
            copy.rows, copy.taken = dict(value.rows), dict(value.taken)
            return copy
        case _:
            return value


class MemoryDatabase:
    """The state that all sessions share. At most one session is in a transaction, whose changes can be undone.

    Args:
        on_step: Called with the session and the name of a step before each statement ("plan_batches", ...), before a COMMIT ("commit") and after
            it ("committed"), and when a session connects ("connect"). An exception that it raises is raised by that step.
        seed: Seed of the identities of batches and attempts.
    """

    def __init__(self, on_step: Callable[[Any, str], object] | None = None, *, seed: int = 0) -> None:
        self.on_step = on_step
        numbers = random.Random(seed)
        self.new_uuid: Callable[[], UUID] = lambda: UUID(int=numbers.getrandbits(128), version=4)
        self.clock = 1_800_000_000 * SECOND
        self.pipelines: dict[str, KnownPipeline] = {}
        self.claimed: dict[tuple[str, str], ClaimedOutput] = {}
        """By pipeline and purpose."""
        self.streams: dict[int, Stream] = {}
        self.batches: dict[int, Batch] = {}
        self.ranges: dict[int, dict[int, Range]] = {}
        """By batch and stream."""
        self.reserved: dict[int, dict[int, Range]] = {}
        """By stream and batch: the ranges that reserve their offsets."""
        self.coverage: dict[int, dict[int, Coverage]] = {}
        """By stream and first offset."""
        self.attempts: dict[UUID, Attempt] = {}
        self.intents: dict[int, Intent] = {}
        """By attempt id."""
        self.events: dict[int, Event] = {}
        self.outbox: dict[int, Outgoing] = {}
        self.runs: dict[tuple[str, str, str], dict[int, int]] = {}
        """For each DAG run of a pipeline, the position of each batch."""
        self.redrives: dict[int, dict[tuple[int, int], None]] = {}
        """By batch: stream and offset of the rejects that a re-drive takes."""
        self.rejects: dict[tuple[int, int], Reject] = {}
        self.staged_counts: dict[int, dict[tuple[int, int], StagedCount]] = {}
        self.staged_rejects: dict[int, dict[tuple[int, int], StagedReject]] = {}
        self.staged_redrives: dict[int, dict[tuple[int, int], StagedRedrive]] = {}
        self.staging: dict[str, list[StagedRow]] = {}
        self._create_states()
        self.outputs: dict[tuple[str, ...], Table] = {}
        """By schema and name."""
        self.trials: dict[tuple[str, ...], dict[int, TriedRecord]] = {}
        """Records of a batch some of whose rows the output refuses, numbered."""
        self._sequences: dict[str, int] = {}
        self._undo: list[tuple[dict[Any, Any], Any, Any]] = []
        self.uncovered: list[Coverage] = []
        """Deleted in this transaction: at its end these offsets must have an owner again."""
        self.settled: list[int] = []
        """Batches settled in this transaction: at its end they must be published."""
        self._trial: tuple[int, int, int] = (0, 0, 0)
        self.holder: Any = None
        """The connection that is in a transaction."""
        self.crashes = 0
        """Counts crashes: sessions from before a crash are lost."""
        self.now = self.clock
        self.transaction = 0
        self.actor = self.reason = ""

    def _create_states(self) -> None:
        """Create the tables of state."""
        self.state_batches: dict[int, Folded] = {}
        self.positions: dict[int, Position] = {}
        """By stream, how far it is folded."""
        self.states: dict[tuple[str, str], KeyState] = {}
        """By pipeline and key."""
        self.state_undo: dict[tuple[int, str], Undo] = {}
        self.position_undo: dict[tuple[int, int], tuple[Any, ...]] = {}
        self.state_columns: dict[str, tuple[list[str], Any]] = {}
        self.staged_states: dict[str, list[StagedState]] = {}
        self.rewinds: dict[int, Rewind] = {}

    def pass_time(self, seconds: float) -> None:
        """Move the clock forward."""
        self.clock += int(seconds * SECOND)

    def step(self, session: Any, name: str) -> None:
        """Call `on_step` with the next step."""
        if self.on_step is not None and name not in NO_STEPS:
            self.on_step(session, name)

    def carry_out(self, statement: Statement, parameters: Mapping[str, Any]) -> Rows | int:
        """Execute one statement of the open transaction; return its rows, or how many it has touched."""
        return statement.function(self, **parameters, **statement.filled)

    def next_id(self, table: str) -> int:
        """Return the next number of a sequence. It is never used again, even if the transaction is rolled back."""
        self._sequences[table] = number = self._sequences.get(table, 0) + 1
        return number

    def put(self, table: dict[K, V], key: K, row: V) -> None:
        """Insert or replace a row."""
        self._undo.append((table, key, table.get(key, _NOTHING)))
        table[key] = row

    def remove(self, table: dict[K, V], key: K) -> V:
        """Delete a row and return it."""
        row = table.pop(key)
        self._undo.append((table, key, row))
        return row

    def begin(self, connection: Any, actor: str) -> None:
        """Open a transaction. Simulated actors take turns between transactions: while one is open no other session may execute a statement."""
        if self.holder is not None:
            raise AssertionError(f"two transactions at once: {actor} begins within one of {self.actor}")
        self.clock += 1  # no two transactions begin at the same time
        self.transaction = self.next_id("transaction")
        self.holder, self.now, self.actor, self.reason = connection, self.clock, actor, ""

    def commit(self) -> None:
        """Keep what the transaction has changed.

        Raises:
            psycopg2.errors.RestrictViolation: Offsets would no longer be accounted for; nothing is kept.
        """
        self.check_now()
        self._end()

    def check_now(self) -> None:
        """Check what is otherwise checked at the end of the transaction."""
        for batch_id in self.settled:
            if self.batches[batch_id].state == "writing":
                raise law(f"batch {batch_id}: what is settled is published in the same transaction")
        for gone in self.uncovered:
            if not self.is_covered(gone.stream_id, gone.start, gone.end):
                raise law(
                    f"offsets of [{gone.start},{gone.end}) of stream {gone.stream_id} would no longer be accounted for"
                )

    def roll_back(self) -> None:
        """Undo what the transaction has changed."""
        self._undo_to(0)
        self._end()

    def begin_trial(self) -> None:
        """Mark this point of the transaction."""
        self._trial = len(self._undo), len(self.uncovered), len(self.settled)

    def undo_trial(self) -> None:
        """Undo what the transaction has changed since the mark."""
        n_changes, n_uncovered, n_settled = self._trial
        self._undo_to(n_changes)
        del self.uncovered[n_uncovered:]
        del self.settled[n_settled:]

    def _undo_to(self, n_changes: int) -> None:
        for table, key, row in reversed(self._undo[n_changes:]):
            if row is _NOTHING:
                del table[key]
            else:
                table[key] = row
        del self._undo[n_changes:]

    def _end(self) -> None:
        self._undo.clear()
        self.uncovered.clear()
        self.settled.clear()
        self.holder = None

    def crash(self) -> None:
        """Crash the server and restart it: sessions and their uncommitted changes are lost, and unlogged tables are empty."""
        self.crashes += 1
        if self.holder is not None:
            self.roll_back()
        for rows in self.staging.values():
            rows.clear()
        for states in self.staged_states.values():
            states.clear()

    def keep(self) -> dict[str, Any]:
        """Return a copy of all tables and sequences, as a dump contains them."""
        return {name: _copied(value) for name, value in vars(self).items() if isinstance(value, dict)}

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Replace all tables and sequences by a copy. Sessions are lost, and the clock is not reset."""
        self.crash()
        for name, value in kept.items():
            setattr(self, name, _copied(value))

    def writing(self, batch: Batch) -> Attempt:
        """Return the attempt that writes a batch in state `writing`."""
        assert batch.attempt is not None, batch
        return self.attempts[batch.attempt]

    def is_rewinding(self, pipeline: str) -> bool:
        """Return whether this transaction takes the pipeline back."""
        return any((row.pipeline, row.decided_in) == (pipeline, self.transaction) for row in self.rewinds.values())

    def covering(self, stream_id: int, start: int, end: int) -> list[Coverage]:
        """Return the coverage that overlaps the offsets, ascending."""
        return sorted(
            (c for c in self.coverage[stream_id].values() if c.start < end and start < c.end), key=lambda c: c.start
        )

    def is_covered(self, stream_id: int, start: int, end: int, *, by_batches: bool = False) -> bool:
        """Return whether all of the offsets are covered."""
        for piece in self.covering(stream_id, start, end):
            if piece.start > start:
                return False
            if not by_batches or piece.batch_id is not None:
                start = piece.end
        return start >= end

    def reserving(self, stream_id: int, start: int, end: int) -> list[Range]:
        """Return the ranges that have reserved some of the offsets, ascending."""
        return sorted(
            (r for r in self.reserved[stream_id].values() if r.start < end and start < r.end), key=lambda r: r.start
        )
