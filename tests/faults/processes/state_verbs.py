"""Define the verbs of the matrix that read or change the states of a pipeline, its undo, or what a rewind has left."""

from collections.abc import Callable

from faults.actions import Abandon, AcceptPartitions, Plan, Rewind, Skip, Upkeep
from faults.operations import AddPartitions
from faults.processes.process_pipelines import UNDO_BATCHES, Output
from faults.processes.process_scene import Scene
from faults.processes.scenarios import (
    Scenario,
    Verb,
    commanding,
    holes_of,
    planned,
    planning,
    state_of,
    write_live,
    writing,
)
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import NamedRange, NewRecords


def _rewind(scene: Scene) -> Scenario:
    """Go back over two batches."""
    to_batch = _last_folded(scene)
    _load_two(scene)
    return _rewinding(scene, to_batch)


def _rewind_open(scene: Scene) -> Scenario:
    """Go back over a batch whose rejects pass now, while another batch is planned."""
    scene.transform(corrected=False)
    to_batch = _last_folded(scene)
    scene.arrive(11)
    scene.load()
    scene.transform(corrected=True)
    planned(scene)
    return _rewinding(scene, to_batch)


def _rewind_all(scene: Scene) -> Scenario:
    """Go back to the beginning."""
    scene.arrive(5)
    scene.load()
    return _rewinding(scene, 0)


def _rewinding(scene: Scene, to_batch: int) -> Scenario:
    rewind = Rewind(to_batch)
    before = _n_rewinds(scene)
    return Scenario(rewind, (rewind,), lambda: _n_rewinds(scene) > before, asks_again=True)


def _n_rewinds(scene: Scene) -> int:
    [(count,)] = scene.query("SELECT count(*) FROM tideline.rewind WHERE pipeline = %s", scene.pipeline.name)
    return int(count)


def _plan_rewound(scene: Scene) -> Scenario:
    """Plan what a rewind has left, after its batch was given up, and new records."""
    _give_up(scene, _rewound(scene))
    scene.arrive(3)
    return planning(scene, NewRecords())


def _write_rewound(scene: Scene) -> Scenario:
    """Write what a rewind has planned."""
    _rewound(scene)
    return writing(scene, NewRecords())


def _skip_rewound(scene: Scene) -> Scenario:
    """Skip some of what a rewind has left, which a batch has reserved."""
    batch_id = _rewound(scene)
    [(start, end)] = scene.query(
        "SELECT lower(offsets), upper(offsets) FROM tideline.batch_range WHERE batch_id = %s", batch_id
    )
    piece = NamedRange("ads", 0, OffsetRange(start + 1, end - 1))
    return commanding(Skip(piece), lambda: (start + 1, end - 1) in holes_of(scene, "skipped"))


def _abandon_rewound(scene: Scene) -> Scenario:
    batch_id = _rewound(scene)
    return commanding(Abandon(batch_id), lambda: state_of(scene, batch_id) == "abandoned")


def _accept_partitions(scene: Scene) -> Scenario:
    """Load a partition that the topic has gained, which a plan has found."""
    scene.apply(AddPartitions(1, 4))
    assert scene.run_tasks(Plan(run=scene.run(), request=NewRecords())).error == "NeedsOperatorError"
    states = "SELECT state::text FROM tideline.stream WHERE pipeline = %s"
    return commanding(AcceptPartitions(), lambda: set(scene.query(states, scene.pipeline.name)) == {("active",)})


def _upkeep(scene: Scene) -> Scenario:
    """Prune undo: one more batch is folded than can be rewound."""
    while _n_kept(scene) <= UNDO_BATCHES:
        scene.arrive(5)
        scene.load()
    return commanding(Upkeep(), lambda: _n_kept(scene) == UNDO_BATCHES)


def _n_kept(scene: Scene) -> int:
    [(count,)] = scene.query(
        "SELECT count(*) FROM tideline.state_batch WHERE pipeline = %s AND undo = 'kept'", scene.pipeline.name
    )
    return int(count)


def _rewound(scene: Scene) -> int:
    """Go back over one batch, and return the one that is planned in its place."""
    to_batch = _last_folded(scene)
    scene.arrive(8)
    scene.load()
    ended = scene.run_tasks(Rewind(to_batch))
    assert ended.batch_ids, ended
    return ended.batch_ids[-1]


def _give_up(scene: Scene, batch_id: int) -> None:
    assert not scene.run_tasks(Abandon(batch_id)).error


def _load_two(scene: Scene) -> None:
    for count in (5, 4):
        scene.arrive(count)
        scene.load()


def _last_folded(scene: Scene) -> int:
    """Return the batch that was folded last."""
    [(batch_id,)] = scene.query(
        "SELECT batch_id FROM tideline.state_batch WHERE pipeline = %s AND undo <> 'applied' ORDER BY seq DESC LIMIT 1",
        scene.pipeline.name,
    )
    return int(batch_id)


def _verb(name: str, prepare: Callable[[Scene], Scenario], *, first: int = 0, anew: bool = False) -> Verb:
    return Verb(name, prepare, first=first, output=Output.FOLDED, anew=anew)


STATE_VERBS = (
    _verb("write to a state, the first", write_live, first=1),
    _verb("write to a state, with timers that come", write_live, anew=True),
    _verb("write what was rewound", _write_rewound),
    _verb("plan what was rewound", _plan_rewound),
    _verb("skip what was rewound", _skip_rewound),
    _verb("abandon what was rewound", _abandon_rewound),
    _verb("rewind", _rewind),
    _verb("rewind with an open batch", _rewind_open),
    _verb("rewind to the beginning", _rewind_all, first=1),
    _verb("accept-partitions", _accept_partitions),
    _verb("upkeep of a state", _upkeep),
)
