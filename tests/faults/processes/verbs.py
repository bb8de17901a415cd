"""The verbs that the matrix goes through: how each is brought to where it has something to do, and what happens after somebody was struck at it."""

from collections.abc import Callable
from dataclasses import dataclass

from faults.actions import Abandon, AcceptLoss, AdoptTopic, Advance, Plan, Retry, Skip, Task, Upkeep, Write
from faults.operations import CreateAgain, Retain
from faults.processes.child import Migrate, Timing
from faults.processes.process_scene import Scene
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import NamedRange, NewRecords, Ranges, Rejects, Request
from windows import window


@dataclass(frozen=True, slots=True)
class Deed:
    """One task or command that is about to be done."""

    task: Task | Migrate
    again: tuple[Task | Migrate, ...]
    """What Airflow or a person does after it was struck."""
    done: Callable[[], bool] = lambda: True
    """Whether that has brought about what the verb is for."""
    asks_again: bool = False
    """A run that asked for certain offsets and is through is given them once more, whoever asks: so also by one that was frozen."""


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb in one of its situations."""

    name: str
    prepare: Callable[[Scene], Deed]
    first: int = 0
    """It wants a pipeline that has loaded nothing yet, and so many partitions."""
    migrated: int | None = None
    """It wants a database of its own, with so many migrations."""

    @property
    def alone(self) -> bool:
        """Whether a scene serves it only once."""
        return bool(self.first) or self.migrated is not None


def _planning(scene: Scene, request: Request) -> Deed:
    run = scene.run()
    plan = Plan(run=run, request=request)
    return Deed(
        plan,
        (plan, Write(run=run, try_number=1), Advance(run=run)),
        lambda: bool(_batches_of(scene, run.run_id)),
        asks_again=not isinstance(request, NewRecords),
    )


def _writing(scene: Scene, request: Request) -> Deed:
    run = scene.run()
    assert scene.through(Plan(run=run, request=request)).batch_ids
    return Deed(
        Write(run=run, try_number=1),
        (Write(run=run, try_number=2), Advance(run=run)),
        lambda: all(state != "planned" for _, state in _batches_of(scene, run.run_id)),
    )


def _commanding(command: Task, done: Callable[[], bool]) -> Deed:
    return Deed(command, (command,), done)


def _batches_of(scene: Scene, run_id: str) -> list[tuple[int, str]]:
    return scene.query(
        "SELECT batch_id, batch.state::text FROM tideline.run_batch r JOIN tideline.batch USING (batch_id)"
        " WHERE r.pipeline = %s AND r.run_id = %s ORDER BY 1",
        scene.pipeline.name,
        run_id,
    )


def _planned(scene: Scene) -> int:
    """One more batch that nobody has written yet."""
    scene.arrive(3)
    [batch_id] = scene.through(Plan(run=scene.run(), request=NewRecords())).batch_ids
    return batch_id


def _head(scene: Scene) -> int:
    return scene.query(
        "SELECT max(next_offset) FROM tideline.stream WHERE pipeline = %s AND state <> 'retired' AND partition = 0",
        scene.pipeline.name,
    )[0][0]


def _pieces(start: int, end: int, *, replace: bool = False) -> Ranges:
    return Ranges(ranges=(NamedRange("ads", 0, OffsetRange(start, end)),), replace=replace)


def _plan_first(scene: Scene) -> Deed:
    scene.arrive(3)
    return _planning(scene, NewRecords())


def _plan_adopting(scene: Scene) -> Deed:
    _planned(scene)
    scene.arrive(3)
    return _planning(scene, NewRecords())


def _plan_window(scene: Scene) -> Deed:
    head = _head(scene)
    scene.arrive(3)
    return _planning(scene, window(head - 3, head + 2, replace=True))


def _plan_redrive(scene: Scene) -> Deed:
    return _planning(scene, Rejects())


def _write_live(scene: Scene) -> Deed:
    scene.arrive(11)
    return _writing(scene, NewRecords())


def _write_backfill(scene: Scene) -> Deed:
    head = _head(scene)
    scene.arrive(8)
    assert not scene.through(Skip(NamedRange("ads", 0, OffsetRange(head, head + 6)))).error
    return _writing(scene, _pieces(head + 1, head + 5))


def _write_replay(scene: Scene) -> Deed:
    """Over all of one batch, and the end of what another one owns."""
    head = _head(scene)
    scene.arrive(4)
    scene.load()
    return _writing(scene, _pieces(head - 2, head + 4, replace=True))


def _write_redrive(scene: Scene) -> Deed:
    """Some records pass now, others are rejected again."""
    scene.transform(corrected=False)
    scene.arrive(11)
    scene.load()
    scene.transform(corrected=True)
    return _writing(scene, Rejects())


def _advance(scene: Scene) -> Deed:
    scene.arrive(4)
    run = scene.run()
    assert not scene.through(Plan(run=run, request=NewRecords()), Write(run=run, try_number=1)).error
    through = {"advanced", "superseded"}
    return Deed(
        Advance(run=run),
        (Advance(run=run),),
        lambda: all(state in through for _, state in _batches_of(scene, run.run_id)),
    )


def _skip(scene: Scene) -> Deed:
    """Offsets that a batch has reserved, and some behind it."""
    head = _head(scene)
    _planned(scene)
    scene.arrive(2)
    piece = NamedRange("ads", 0, OffsetRange(head + 1, head + 5))
    return _commanding(Skip(piece), lambda: (head + 1, head + 5) in _holes(scene, "skipped"))


def _accept_loss(scene: Scene) -> Deed:
    head = _head(scene)
    scene.arrive(6)
    log_start = scene.kafka.cluster.topics["ads"].logs[0].start
    scene.happen(Retain(0, head + 2 - log_start))
    assert scene.through(Plan(run=scene.run(), request=NewRecords())).error == "NeedsOperatorError"
    return _commanding(AcceptLoss(), lambda: (head, head + 2) in _holes(scene, "lost"))


def _adopt_topic(scene: Scene) -> Deed:
    for _ in range(2):  # every other incarnation is written in transactions, and has gaps
        scene.happen(CreateAgain((4,)))
    assert scene.through(Plan(run=scene.run(), request=NewRecords())).error == "NeedsOperatorError"
    followed = "SELECT topic_id::text FROM tideline.stream WHERE pipeline = %s AND state = 'active'"
    now = str(scene.kafka.cluster.topics["ads"].topic_id)
    return _commanding(AdoptTopic(), lambda: scene.query(followed, scene.pipeline.name) == [(now,)])


def _abandon(scene: Scene) -> Deed:
    batch_id = _planned(scene)
    return _commanding(Abandon(batch_id), lambda: _state(scene, batch_id) == "abandoned")


def _retry(scene: Scene) -> Deed:
    batch_id = _planned(scene)
    events = "SELECT count(*) > 0 FROM tideline.event WHERE batch_id = %s AND action = 'retry'"
    return _commanding(Retry(batch_id), lambda: scene.query(events, batch_id) == [(True,)])


def _upkeep(scene: Scene) -> Deed:
    """A writer is dead, its staging lies about, and so do old events."""
    run = scene.run()
    scene.arrive(11)
    [batch_id] = scene.through(Plan(run=run, request=NewRecords())).batch_ids
    # Its heart does not beat: a beat that is still under way when it is killed would make it look alive.
    writer = scene.start(Write(run=run, try_number=1), timing=Timing(beat_seconds=1000))
    while not (writer.hear(10) and writer.at and writer.at.name == "count_rejects"):
        writer.go()
    writer.kill()
    scene.pass_time(3600)
    scene.grow_old()
    return _commanding(Upkeep(), lambda: _state(scene, batch_id) == "failed" and not scene.staging())


def _migrate(_: Scene) -> Deed:
    return Deed(Migrate(), (Migrate(),))


def _holes(scene: Scene, hole: str) -> list[tuple[int, int]]:
    return scene.query(
        "SELECT lower(offsets), upper(offsets) FROM tideline.coverage JOIN tideline.stream USING (stream_id)"
        " WHERE pipeline = %s AND hole::text = %s ORDER BY 1",
        scene.pipeline.name,
        hole,
    )


def _state(scene: Scene, batch_id: int) -> str:
    return scene.query("SELECT state::text FROM tideline.batch WHERE batch_id = %s", batch_id)[0][0]


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
