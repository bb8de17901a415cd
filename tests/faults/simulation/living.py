"""A writer that lives keeps its batch: whoever wants it waits until the writer has ended or fallen silent. Else all its work would be done again."""

from faults.memory import MemoryDatabase
from faults.memory.database import SECOND
from faults.memory.rows import Batch

SILENT_SECONDS = 60
"""After so long a writer is taken for dead."""


def robbed(database: MemoryDatabase, old: Batch) -> str | None:
    """What a transaction does to a batch that was being written when it began, if that is not its writer's affair and the writer not silent."""
    new, attempt = database.batches[old.batch_id], database.attempts[old.attempt]
    own = f"{attempt.dag_id} {attempt.run_id} {attempt.task_id}"
    silent = (database.clock - attempt.heartbeat_at) / SECOND
    if new.state == "published" or database.actor == own or silent > SILENT_SECONDS:
        return None
    return f"{database.actor} has taken batch {old.batch_id}, which is {new.state} now, from {own}, silent for {silent:.0f} s"
