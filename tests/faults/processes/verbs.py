"""Define the verbs of the matrix: how each is brought into a situation with work to do, and what is done after a
fault."""

from collections.abc import Callable
from dataclasses import dataclass

from faults.actions import Abandon, AcceptLoss, AdoptTopic, Advance, Plan, Retry, Skip, Task, Upkeep, Write
from faults.operations import CreateAgain, Retain
from faults.processes.child import Migrate, Timing
from faults.processes.process_scene import Scene
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import NamedRange, NewRecords, Ranges, Rejects, Request
from tideline.ledger.reservations import Run
from windows import window


@dataclass(frozen=True, slots=True)
class Scenario:
    """A task or command that is about to run."""

    task: Task | Migrate
    again: tuple[Task | Migrate, ...]
    """What Airflow or an operator runs after the fault."""
    done: Callable[[], bool] = lambda: True
    """Whether these have reached the goal of the verb."""
    asks_again: bool = False
    """Whether a repeated plan of a finished run plans the same offsets once more. This holds for runs that request
    certain offsets, also if the plan was frozen."""


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb in one situation."""

    name: str
    prepare: Callable[[Scene], Scenario]
    first: int = 0
    """Partitions of a pipeline that has loaded nothing yet; 0 if the verb does not need a new pipeline."""
    migrated: int | None = None
    """Migrations of a database of its own; None if the verb does not need one."""

    @property
    def alone(self) -> bool:
        """Return whether a scene can be used only once."""
        return bool(self.first) or self.migrated is not None


def _planning(scene: Scene, request: Request) -> Scenario:
    run = scene.run()
    plan = Plan(run=run, request=request)
    return Scenario(
        plan,
        (plan, Write(run=run, try_number=1), Advance(run=run)),
        lambda: bool(_batches_of(scene, run.run_id)),
        asks_again=not isinstance(request, NewRecords),
    )


def _writing(scene: Scene, request: Request) -> Scenario:
    run = scene.run()
    assert scene.run_tasks(Plan(run=run, request=request)).batch_ids
    return Scenario(
        Write(run=run, try_number=1),
        (Write(run=run, try_number=2), Advance(run=run)),
        lambda: all(state != "planned" for _, state in _batches_of(scene, run.run_id)),
    )


def _commanding(command: Task, done: Callable[[], bool]) -> Scenario:
    return Scenario(command, (command,), done)


def _batches_of(scene: Scene, run_id: str) -> list[tuple[int, str]]:
    return scene.query(
        "SELECT batch_id, batch.state::text FROM tideline.run_batch r JOIN tideline.batch USING (batch_id)"
        " WHERE r.pipeline = %s AND r.run_id = %s ORDER BY 1",
        scene.pipeline.name,
        run_id,
    )


def _planned(scene: Scene) -> int:
    """Plan one more batch, which is not written yet; return its id."""
    scene.arrive(3)
    return _only_batch(scene, scene.run())


def _only_batch(scene: Scene, run: Run) -> int:
    """Plan new records, which are one batch; return its id."""
    [batch_id] = scene.run_tasks(Plan(run=run, request=NewRecords())).batch_ids or []
    return batch_id


def _head(scene: Scene) -> int:
    [(head,)] = scene.query(
        "SELECT max(next_offset) FROM tideline.stream WHERE pipeline = %s AND state <> 'retired' AND partition = 0",
        scene.pipeline.name,
    )
    return int(head)


def _pieces(start: int, end: int, *, replace: bool = False) -> Ranges:
    return Ranges(ranges=(NamedRange("ads", 0, OffsetRange(start, end)),), replace=replace)


def _plan_first(scene: Scene) -> Scenario:
    scene.arrive(3)
    return _planning(scene, NewRecords())


def _plan_adopting(scene: Scene) -> Scenario:
    _planned(scene)
    scene.arrive(3)
    return _planning(scene, NewRecords())


def _plan_window(scene: Scene) -> Scenario:
    head = _head(scene)
    scene.arrive(3)
    return _planning(scene, window(head - 3, head + 2, replace=True))


def _plan_redrive(scene: Scene) -> Scenario:
    return _planning(scene, Rejects())


def _write_live(scene: Scene) -> Scenario:
    scene.arrive(11)
    return _writing(scene, NewRecords())


def _write_backfill(scene: Scene) -> Scenario:
    head = _head(scene)
    scene.arrive(8)
    assert not scene.run_tasks(Skip(NamedRange("ads", 0, OffsetRange(head, head + 6)))).error
    return _writing(scene, _pieces(head + 1, head + 5))


def _write_replay(scene: Scene) -> Scenario:
    """Replay all of one batch, and the end of the range of another one."""
    head = _head(scene)
    scene.arrive(4)
    scene.load()
    return _writing(scene, _pieces(head - 2, head + 4, replace=True))


def _write_redrive(scene: Scene) -> Scenario:
    """Re-drive rejects of which some pass now and others are rejected again."""
    scene.transform(corrected=False)
    scene.arrive(11)
    scene.load()
    scene.transform(corrected=True)
    return _writing(scene, Rejects())


def _advance(scene: Scene) -> Scenario:
    scene.arrive(4)
    run = scene.run()
    assert not scene.run_tasks(Plan(run=run, request=NewRecords()), Write(run=run, try_number=1)).error
    finished = {"advanced", "superseded"}
    return Scenario(
        Advance(run=run),
        (Advance(run=run),),
        lambda: all(state in finished for _, state in _batches_of(scene, run.run_id)),
    )


def _skip(scene: Scene) -> Scenario:
    """Skip offsets that a batch has reserved, and some behind it."""
    head = _head(scene)
    _planned(scene)
    scene.arrive(2)
    piece = NamedRange("ads", 0, OffsetRange(head + 1, head + 5))
    return _commanding(Skip(piece), lambda: (head + 1, head + 5) in _holes(scene, "skipped"))


def _accept_loss(scene: Scene) -> Scenario:
    head = _head(scene)
    scene.arrive(6)
    log_start = scene.kafka.cluster.topics["ads"].logs[0].start
    scene.apply(Retain(0, head + 2 - log_start))
    assert scene.run_tasks(Plan(run=scene.run(), request=NewRecords())).error == "NeedsOperatorError"
    return _commanding(AcceptLoss(), lambda: (head, head + 2) in _holes(scene, "lost"))


def _adopt_topic(scene: Scene) -> Scenario:
    for _ in range(2):  # every other incarnation is written in transactions and has gaps
        scene.apply(CreateAgain((4,)))
    assert scene.run_tasks(Plan(run=scene.run(), request=NewRecords())).error == "NeedsOperatorError"
    followed = "SELECT topic_id::text FROM tideline.stream WHERE pipeline = %s AND state = 'active'"
    now = str(scene.kafka.cluster.topics["ads"].topic_id)
    return _commanding(AdoptTopic(), lambda: scene.query(followed, scene.pipeline.name) == [(now,)])


def _abandon(scene: Scene) -> Scenario:
    batch_id = _planned(scene)
    return _commanding(Abandon(batch_id), lambda: _state(scene, batch_id) == "abandoned")


def _retry(scene: Scene) -> Scenario:
    batch_id = _planned(scene)
    events = "SELECT count(*) > 0 FROM tideline.event WHERE batch_id = %s AND action = 'retry'"
    return _commanding(Retry(batch_id), lambda: scene.query(events, batch_id) == [(True,)])


def _upkeep(scene: Scene) -> Scenario:
    """Run upkeep after a writer died and left its staging table, with old events."""
    run = scene.run()
    scene.arrive(11)
    batch_id = _only_batch(scene, run)
    # It sends no heartbeat: one that is still under way when the writer is killed would make it look alive.
    writer = scene.start(Write(run=run, try_number=1), timing=Timing(beat_seconds=1000))
    while not (writer.hear(10) and writer.at and writer.at.name == "count_rejects"):
        writer.go()
    writer.kill()
    scene.pass_time(3600)
    scene.grow_old()
    return _commanding(Upkeep(), lambda: _state(scene, batch_id) == "failed" and not scene.staging())


def _migrate(_: Scene) -> Scenario:
    return Scenario(Migrate(), (Migrate(),))


def _holes(scene: Scene, hole: str) -> list[tuple[int, int]]:
    return scene.query(
        "SELECT lower(offsets), upper(offsets) FROM tideline.coverage JOIN tideline.stream USING (stream_id)"
        " WHERE pipeline = %s AND hole::text = %s ORDER BY 1",
        scene.pipeline.name,
        hole,
    )


def _state(scene: Scene, batch_id: int) -> str:
    [(state,)] = scene.query("SELECT state::text FROM tideline.batch WHERE batch_id = %s", batch_id)
    return str(state)


VERBS = {
    verb.name: verb
    for verb in (
        Verb("plan, the first", _plan_first, first=2),
        Verb("write, the first", _write_live, first=1),
        Verb("advance", _advance),
        Verb("plan that adopts", _plan_adopting),
        Verb("plan of a window", _plan_window),
        Verb("plan of a re-drive", _plan_redrive),
        Verb("write a backfill", _write_backfill),
        Verb("write a replay", _write_replay),
        Verb("write a re-drive", _write_redrive),
        Verb("skip", _skip),
        Verb("accept-loss", _accept_loss),
        Verb("adopt-topic", _adopt_topic),
        Verb("abandon", _abandon),
        Verb("retry", _retry),
        Verb("upkeep", _upkeep),
        Verb("migrate, from nothing", _migrate, migrated=0),
        Verb("migrate, from 0003", _migrate, migrated=3),
    )
}
