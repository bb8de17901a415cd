"""Define the verbs of the matrix that read or change a Delta table: with nothing in it, with an attempt that has committed
and was killed, with one that was about to commit."""

from faults.actions import Abandon, Advance, Skip, Upkeep, Write
from faults.processes.process_pipelines import Output
from faults.processes.process_scene import Scene
from faults.processes.scenarios import (
    Scenario,
    Verb,
    batches_of,
    commanding,
    head_of,
    holes_of,
    left_behind,
    only_batch,
    state_of,
    write_live,
    write_redrive,
    write_replay,
)
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import NamedRange

_COMMIT = "lake: COMMIT of rows"


def _write_committed(scene: Scene) -> Scenario:
    return _write_again(scene, after=True)


def _write_intended(scene: Scene) -> Scenario:
    return _write_again(scene, after=False)


def _write_again(scene: Scene, *, after: bool) -> Scenario:
    """Write a batch whose first writer was killed before its commit, or after it."""
    scene.arrive(11)
    run = scene.run()
    only_batch(scene, run)
    left_behind(scene, run, _COMMIT, after=after)
    return Scenario(
        Write(run=run, try_number=2),
        (Write(run=run, try_number=3), Advance(run=run)),
        lambda: [state for _, state in batches_of(scene, run.run_id)] == ["advanced"],
    )


def _abandon_intended(scene: Scene) -> Scenario:
    batch_id = _intended(scene)
    return commanding(Abandon(batch_id), lambda: state_of(scene, batch_id) == "abandoned")


def _skip_intended(scene: Scene) -> Scenario:
    """Skip offsets of a batch whose writer was about to commit."""
    head = head_of(scene)
    batch_id = _intended(scene)
    piece = NamedRange("ads", 0, OffsetRange(head + 1, head + 3))
    return commanding(
        Skip(piece),
        lambda: (head + 1, head + 3) in holes_of(scene, "skipped") and state_of(scene, batch_id) == "abandoned",
    )


def _intended(scene: Scene) -> int:
    """Plan a batch whose writer is killed before its commit; return its id."""
    scene.arrive(4)
    run = scene.run()
    batch_id = only_batch(scene, run)
    left_behind(scene, run, _COMMIT)
    return batch_id


def _upkeep(scene: Scene) -> Scenario:
    """Run upkeep on a table with small files, and with files of an attempt that can never commit."""
    for _ in range(2):
        scene.arrive(5)
        scene.load()
    assert not scene.run_tasks(Abandon(_intended(scene))).error
    lake = scene.lake
    assert lake is not None
    return commanding(Upkeep(), lambda: lake.n_files() == 1 and not lake.left_over())


LAKE_VERBS = (
    Verb("write to a lake, the first", write_live, first=1, output=Output.LAKE),
    Verb("write what was committed to a lake", _write_committed, output=Output.LAKE),
    Verb("write what was not committed to a lake", _write_intended, output=Output.LAKE),
    Verb("write a replay in a lake", write_replay, output=Output.LAKE),
    Verb("write a re-drive in a lake", write_redrive, output=Output.LAKE),
    Verb("abandon what was not committed to a lake", _abandon_intended, output=Output.LAKE),
    Verb("skip what was not committed to a lake", _skip_intended, output=Output.LAKE),
    Verb("upkeep of a lake", _upkeep, output=Output.LAKE),
)
