"""Staged data of attempts that have not published: counts, rejects, and tables of rows."""

import re
from uuid import UUID

from faults.memory.batches import OPEN
from faults.memory.database import K, MemoryDatabase, V
from faults.memory.refusals import check, law, overlap, refusal
from faults.memory.registry import Rows, verb
from faults.memory.rows import Attempt, StagedCount, StagedReject

_STAGING = re.compile(r"attempt_([0-9a-f]{32})(?:_state)?")


@verb
def stage_counts(
    db: MemoryDatabase,
    *,
    attempt: UUID,
    stream_ids: list[int],
    first_read: list[int],
    last_read: list[int],
    n_read: list[int],
    n_filtered: list[int],
    n_bytes: list[int],
) -> int:
    attempt_id = staging_id(db, attempt)
    rows = sorted(zip(stream_ids, first_read, last_read, n_read, n_filtered, n_bytes, strict=True))
    for row in rows:
        _count(db, attempt_id, StagedCount(*row))
    if rows:
        check_intent(db, attempt_id, "staged_count")
    return len(rows)


def _count(db: MemoryDatabase, attempt_id: int, new: StagedCount) -> None:
    if new.last_read < new.first_read:
        raise check("staged_count", "staged_count_check", str(new))
    counts = of_attempt(db, db.staged_counts, attempt_id)
    for (stream, first), other in counts.items():
        overlaps = other.last_read >= new.first_read and first <= new.last_read
        if stream == new.stream_id and first != new.first_read and overlaps:
            raise overlap("counted_once")
    db.put(counts, (new.stream_id, new.first_read), new)


@verb
def stage_rejects(
    db: MemoryDatabase,
    *,
    attempt: UUID,
    stream_ids: list[int],
    offsets: list[int],
    steps: list[str],
    reasons: list[str],
    timestamps_ms: list[int | None],
    keys: list[bytes | None],
    values: list[bytes | None],
    headers: list[bytes | None],
) -> int:
    attempt_id = staging_id(db, attempt)
    rejects = of_attempt(db, db.staged_rejects, attempt_id)
    rows = zip(stream_ids, offsets, steps, reasons, timestamps_ms, keys, values, headers, strict=True)
    n_new = 0
    for row in map(StagedReject._make, rows):
        if (row.stream_id, row.kafka_offset) not in rejects:
            db.put(rejects, (row.stream_id, row.kafka_offset), row)
            n_new += 1
    if n_new:
        check_intent(db, attempt_id, "staged_reject")
    return n_new


def staging_id(db: MemoryDatabase, number: UUID) -> int:
    """Return the id under which an attempt stages. Refuse one that the database does not know."""
    if number not in db.attempts:
        message = f"staging for attempt {number} is refused: the ledger does not know it; was the ledger restored to an earlier moment?"
        raise refusal("foreign_key_violation", message, constraint="attempt_is_known")
    return db.attempts[number].attempt_id


def of_attempt(db: MemoryDatabase, table: dict[int, dict[K, V]], attempt_id: int) -> dict[K, V]:
    """Return the rows of an attempt in a table."""
    if attempt_id not in table:
        db.put(table, attempt_id, {})
    return table[attempt_id]


def check_intent(db: MemoryDatabase, attempt_id: int, table: str) -> None:
    """Refuse rows of an attempt that intends to commit what it has staged."""
    if attempt_id in db.intents:
        raise law(f"tideline.{table} is refused: the attempt intends to commit what it has staged")


@verb
def count_rejects(db: MemoryDatabase, *, attempt_id: int) -> Rows:
    reasons = sorted(reject.reason for reject in db.staged_rejects.get(attempt_id, {}).values())
    n_read = sum(count.n_read for count in db.staged_counts.get(attempt_id, {}).values())
    return [{"n_rejected": len(reasons), "reason": max(reasons, key=reasons.count, default=None), "n_read": n_read}]


@verb
def clear_staging(db: MemoryDatabase, *, batch_id: int) -> int:
    _, n_rejects, _ = _clear(db, [attempt for attempt in db.attempts.values() if attempt.batch_id == batch_id])
    return n_rejects


@verb
def clear_dead_staging(db: MemoryDatabase, *, pipeline: str) -> Rows:
    dead = [
        attempt
        for attempt in db.attempts.values()
        if db.batches[attempt.batch_id].pipeline == pipeline
        and not _is_writing(db, attempt)
        and not is_kept(db, attempt)
    ]
    return [{"n_rows": sum(_clear(db, dead))}]


def is_kept(db: MemoryDatabase, attempt: Attempt) -> bool:
    """Return whether a later attempt may settle with what it has staged."""
    return attempt.attempt_id in db.intents and db.batches[attempt.batch_id].state in OPEN


def _is_writing(db: MemoryDatabase, attempt: Attempt) -> bool:
    batch = db.batches[attempt.batch_id]
    return batch.state == "writing" and batch.attempt == attempt.attempt


def _clear(db: MemoryDatabase, attempts: list[Attempt]) -> tuple[int, int, int]:
    """Delete; return the numbers of counts, rejects and slices of a re-drive."""
    ids = [attempt.attempt_id for attempt in attempts]
    return _cut(db, db.staged_counts, ids), _cut(db, db.staged_rejects, ids), _cut(db, db.staged_redrives, ids)


def _cut(db: MemoryDatabase, table: dict[int, dict[K, V]], attempt_ids: list[int]) -> int:
    return sum(len(db.remove(table, attempt_id)) for attempt_id in attempt_ids if attempt_id in table)


@verb
def list_dead_staging(db: MemoryDatabase, *, pipeline: str) -> Rows:
    owned = [(_stager(db, name), name) for name in (*db.staging, *db.staged_states)]
    dead = [
        (attempt.attempt_id, name)
        for attempt, name in owned
        if attempt and db.batches[attempt.batch_id].pipeline == pipeline
        if not _is_writing(db, attempt) and not is_kept(db, attempt)
    ]
    return [{"name": name} for _, name in sorted(dead)]


def _stager(db: MemoryDatabase, table: str) -> Attempt | None:
    """Return the attempt that a staging table belongs to; None if the database does not know it, as after a restore."""
    found = _STAGING.fullmatch(table)
    assert found is not None, table
    return db.attempts.get(UUID(found[1]))


def of_batch(db: MemoryDatabase, batch_id: int, fence: int) -> Rows:
    """Return the staging tables of the attempts at a batch up to a fence."""
    owned = [(_stager(db, name), name) for name in (*db.staging, *db.staged_states)]
    wanted = [(one.fence, name) for one, name in owned if one and one.batch_id == batch_id and one.fence <= fence]
    return [{"name": name} for _, name in sorted(wanted)]


@verb
def find_stager(_: MemoryDatabase) -> Rows:
    return []  # one user does everything here


@verb
def drop_dead_staging(db: MemoryDatabase, *, table: str) -> Rows:
    return drop(db, table)


def drop(db: MemoryDatabase, table: str) -> Rows:
    """Drop a staging table, which may not exist any more, unless its attempt holds its batch. The function returns nothing, as a row."""
    attempt = _stager(db, table)
    if attempt and _is_writing(db, attempt):
        raise law(f"tideline_staging.{table} is not dropped: its attempt holds batch {attempt.batch_id}")
    if attempt and is_kept(db, attempt):
        batch_id = attempt.batch_id
        raise law(
            f"tideline_staging.{table} is not dropped: batch {batch_id} may be committed outside, and is not settled"
        )
    if table in db.staging:
        db.remove(db.staging, table)
    if table in db.staged_states:
        db.remove(db.staged_states, table)
    return [{"drop_staging": ""}]
