"""Check what a successful task has promised: an operator who reads its log trusts it.

The checks run before its last step, when no other process has continued.
"""

from faults.actions import Abandon, Advance, Skip, Task, Write
from faults.processes.process_scene import Scene
from tideline.domain.requests import NamedRange
from tideline.ledger.reservations import Run

_WRITTEN = ["published", "advanced", "superseded", "abandoned"]
_FINISHED = ["advanced", "superseded", "abandoned"]


class Promise:
    """The promise of one task, created when the task begins."""

    def __init__(self, scene: Scene, task: Task) -> None:
        self._scene = scene
        self._task = task
        self._given = self._batches_of(task.run) if isinstance(task, Write | Advance) else []

    def _batches_of(self, run: Run) -> list[int]:
        found = "SELECT batch_id FROM tideline.run_batch WHERE pipeline = %s AND run_id = %s"
        return [row[0] for row in self._scene.query(found, self._scene.pipeline.name, run.run_id)]

    def broken(self) -> list[str]:
        """Return the broken promises."""
        match self._task:
            case Write():
                return self._not_in(self._given, _WRITTEN)
            case Advance():
                return self._not_in(self._given, _FINISHED)
            case Abandon():
                return self._not_in([self._task.batch_id], ["abandoned"])
            case Skip():
                return self._uncovered(self._task.piece)
            case _:
                return []

    def _not_in(self, batch_ids: list[int], states: list[str]) -> list[str]:
        found = self._scene.query(
            "SELECT batch_id, state::text FROM tideline.batch WHERE batch_id = ANY (%s) AND state::text <> ALL (%s)",
            batch_ids,
            states,
        )
        verb = type(self._task).__name__.lower()
        return [f"the verb {verb} has ended well, and batch {batch_id} is {state}" for batch_id, state in found]

    def _uncovered(self, piece: NamedRange) -> list[str]:
        [(covered,)] = self._scene.query(
            "SELECT bool_or(int8range(%s, %s) <@ owned) FROM ("
            "    SELECT range_agg(c.offsets::int8range) AS owned FROM tideline.coverage c JOIN tideline.stream USING (stream_id)"
            "    WHERE pipeline = %s AND partition = %s GROUP BY stream_id) AS covered",
            piece.offsets.start,
            piece.offsets.end,
            self._scene.pipeline.name,
            piece.partition,
        )
        return [] if covered else [f"a skip of {piece} has ended well, and nothing accounts for all of it"]
